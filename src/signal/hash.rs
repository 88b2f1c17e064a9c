//! The keyed hash that stands in signals for a task or an identifier.
//!
//! A plain SHA-256 of a phone number can be guessed by trying all phone numbers; with a key it
//! cannot, and one key still gives one value the same hash everywhere. The key never leaves here.

use std::{
    fmt, fs,
    io::{self, Write as _},
    path::{Path, PathBuf},
};

use hmac::{Hmac, KeyInit as _, Mac as _};
use sha2::{Digest as _, Sha256};

use crate::core::{id::hex, port::Entropy};

/// Bytes that a key has at the least.
pub const MIN_KEY_BYTES: usize = 16;

/// Random bytes of a key that is made here; the file holds them as hex.
const NEW_KEY_BYTES: usize = 32;

/// Hashes values under one key: `hmac-sha256:<key id>:<hex>`.
#[derive(Clone)]
pub struct KeyedHash {
    mac: Hmac<Sha256>,
    prefix: String,
}

/// Why there is no key.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// Too short to keep a guesser out.
    #[error("the hash key has {found} bytes, at least {MIN_KEY_BYTES} are needed")]
    TooShort {
        /// Bytes that it has.
        found: usize,
    },
    /// A file holds too short a key.
    #[error("the hash key in {} has {found} bytes, at least {MIN_KEY_BYTES} are needed", path.display())]
    FileTooShort {
        /// The file.
        path: PathBuf,
        /// Bytes of its key.
        found: usize,
    },
    /// The file could not be read.
    #[error("cannot read the hash key in {}", path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// The file could not be made.
    #[error("cannot create the hash key in {}", path.display())]
    Create {
        /// The file.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
}

impl KeyedHash {
    /// Hashes under these bytes, taken as they are.
    ///
    /// # Errors
    /// Where the key is shorter than [`MIN_KEY_BYTES`].
    pub fn from_key(key: &[u8]) -> Result<Self, Error> {
        if key.len() < MIN_KEY_BYTES {
            return Err(Error::TooShort { found: key.len() });
        }
        let id = hex(&Sha256::digest(key)[..4]);
        let mac = Hmac::new_from_slice(key).expect("HMAC takes a key of any length");
        Ok(Self { mac, prefix: format!("hmac-sha256:{id}:") })
    }

    /// Reads a key: all bytes of the file but line ends after the last one.
    ///
    /// # Errors
    /// Where the file cannot be read or holds too short a key.
    pub fn from_file(path: &Path) -> Result<Self, Error> {
        let bytes = fs::read(path).map_err(|source| Error::Read { path: path.to_owned(), source })?;
        let ends = bytes.iter().rev().take_while(|byte| matches!(byte, b'\n' | b'\r')).count();
        let key = &bytes[..bytes.len() - ends];
        Self::from_key(key).map_err(|_| Error::FileTooShort { path: path.to_owned(), found: key.len() })
    }

    /// Reads the key of the file, or makes one there, readable by its owner alone. Of several
    /// processes that start at once, all end up with the same key.
    ///
    /// # Errors
    /// Where the file can be neither read nor made.
    pub fn load_or_create(path: &Path, entropy: &dyn Entropy) -> Result<Self, Error> {
        match Self::from_file(path) {
            Err(Error::Read { source, .. }) if source.kind() == io::ErrorKind::NotFound => {
                create_key(path, entropy).map_err(|source| Error::Create { path: path.to_owned(), source })?;
                Self::from_file(path)
            }
            loaded => loaded,
        }
    }

    /// The hash of a value.
    pub fn hash(&self, value: &str) -> String {
        let mut mac = self.mac.clone();
        mac.update(value.as_bytes());
        format!("{}{}", self.prefix, hex(&mac.finalize().into_bytes()))
    }
}

impl fmt::Debug for KeyedHash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "KeyedHash({})", self.prefix)
    }
}

/// Writes a new key beside `path` and links it there. The link fails where another process was
/// first, and then that one's key stands: nobody ever reads half a key or replaces one.
fn create_key(path: &Path, entropy: &dyn Entropy) -> io::Result<()> {
    let mut random = [0; NEW_KEY_BYTES + 8];
    entropy.fill(&mut random);
    let (key, tag) = random.split_at(NEW_KEY_BYTES);
    let mut name = path.file_name().ok_or(io::ErrorKind::InvalidInput)?.to_owned();
    name.push(format!(".{}", hex(tag)));
    let draft = path.with_file_name(name);
    let linked =
        write_private(&draft, format!("{}\n", hex(key)).as_bytes()).and_then(|()| match fs::hard_link(&draft, path) {
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok(()),
            result => result,
        });
    // The draft may be missing if it could not be written; what counts is the link.
    let _ = fs::remove_file(&draft);
    linked
}

/// Writes a file that only its owner can read, through to the disk.
fn write_private(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let mut options = fs::OpenOptions::new();
    options.write(true).create_new(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    let mut file = options.open(path)?;
    file.write_all(bytes)?;
    file.sync_all()
}

#[cfg(test)]
mod tests {
    use std::{
        os::unix::fs::PermissionsExt as _,
        sync::atomic::{AtomicU8, Ordering},
    };

    use super::*;

    struct Counting(AtomicU8);

    impl Entropy for Counting {
        fn fill(&self, bytes: &mut [u8]) {
            bytes.fill(self.0.fetch_add(1, Ordering::Relaxed));
        }
    }

    #[test]
    fn hashes_as_the_standard_tools_do() {
        // printf '+7 701 123 45 67' | openssl dgst -sha256 -hmac 0123456789abcdef
        // printf 0123456789abcdef | sha256sum | cut -c1-8
        let hash = KeyedHash::from_key(b"0123456789abcdef").expect("16 bytes");
        assert_eq!(
            hash.hash("+7 701 123 45 67"),
            "hmac-sha256:9f9f5111:91e2a25bf45d4bc67ad45e6832df478bc63047d04e39a0478d9966f96f7ae47a"
        );
    }

    #[test]
    fn a_short_key_is_refused() {
        let error = KeyedHash::from_key(b"0123456789abcde").expect_err("15 bytes");
        assert_eq!(error.to_string(), "the hash key has 15 bytes, at least 16 are needed");
    }

    #[test]
    fn a_key_is_made_once_for_its_owner_alone() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("hash.key");
        let entropy = Counting(AtomicU8::new(7));
        let first = KeyedHash::load_or_create(&path, &entropy).expect("made");
        let second = KeyedHash::load_or_create(&path, &entropy).expect("read");
        assert_eq!(first.hash("a"), second.hash("a"));
        assert_eq!(fs::read_to_string(&path).expect("the key"), format!("{}\n", "07".repeat(32)));
        assert_eq!(fs::metadata(&path).expect("the key").permissions().mode() & 0o777, 0o600);
        assert_eq!(fs::read_dir(folder.path()).expect("the folder").count(), 1);
    }

    #[test]
    fn processes_that_race_agree() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("hash.key");
        let entropy = Counting(AtomicU8::new(0));
        let hashes: std::collections::HashSet<String> = std::thread::scope(|scope| {
            let start = || KeyedHash::load_or_create(&path, &entropy).expect("a key").hash("a");
            let threads: Vec<_> = (0..8).map(|_| scope.spawn(start)).collect();
            threads.into_iter().map(|thread| thread.join().expect("no panic")).collect()
        });
        assert_eq!(hashes.len(), 1);
    }

    #[test]
    fn errors_name_the_file() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("hash.key");
        fs::write(&path, "short\n").expect("written");
        let error = KeyedHash::from_file(&path).expect_err("too short");
        assert_eq!(
            error.to_string(),
            format!("the hash key in {} has 5 bytes, at least 16 are needed", path.display())
        );
        let nowhere = folder.path().join("no/hash.key");
        let error = KeyedHash::load_or_create(&nowhere, &Counting(AtomicU8::new(0))).expect_err("no folder");
        assert_eq!(error.to_string(), format!("cannot create the hash key in {}", nowhere.display()));
    }
}
