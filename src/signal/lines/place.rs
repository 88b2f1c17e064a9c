//! Where lines go. A file is followed by its name: it may be moved away, deleted or replaced under
//! the process, and what comes then goes to whatever has the name. It must never know what a line
//! says, nor what becomes of one that is lost.

use std::{
    fmt,
    fs::{self, File, OpenOptions},
    io::{self, Read as _, Seek as _, Write},
    os::unix::fs::{FileTypeExt as _, MetadataExt as _, OpenOptionsExt as _},
    path::{Path, PathBuf},
};

/// What lines are written to.
pub(super) enum Place {
    /// What a path names at the time of each batch.
    Named(Named),
    /// What stays the same for the life of the process.
    Writer(Box<dyn Write + Send>),
}

/// An open file and the name that it was opened under.
pub(super) struct Named {
    path: PathBuf,
    file: File,
}

impl Place {
    /// Makes ready for a batch. Takes whether the output ends inside a line and gives the same of
    /// what the batch goes to.
    pub(super) fn ready(&mut self, torn: bool) -> io::Result<bool> {
        match self {
            Self::Named(named) if named.is_elsewhere() => named.open_again(),
            Self::Named(_) | Self::Writer(_) => Ok(torn),
        }
    }

    pub(super) fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match self {
            Self::Named(named) => named.file.write(bytes),
            Self::Writer(writer) => writer.write(bytes),
        }
    }
}

impl fmt::Debug for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Named(named) => write!(f, "Named({})", named.path.display()),
            Self::Writer(_) => f.write_str("Writer"),
        }
    }
}

impl Named {
    /// Opens the end of a file, which is made if it is missing. Gives also whether a process was
    /// killed in the middle of a line of it.
    pub(super) fn open(path: &Path) -> io::Result<(Self, bool)> {
        let named = Self { path: path.to_owned(), file: open(path)? };
        let torn = named.ends_inside_a_line();
        Ok((named, torn))
    }

    /// Whether the name is gone or another file has it. What cannot be looked up for another
    /// reason is taken for the file that is open: there lines are surely not lost.
    fn is_elsewhere(&self) -> bool {
        match (fs::metadata(&self.path), self.file.metadata()) {
            (Ok(named), Ok(open)) => (named.dev(), named.ino()) != (open.dev(), open.ino()),
            (Err(error), _) => matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory),
            (Ok(_), Err(_)) => false,
        }
    }

    /// On a failure the old file stays the open one, so that the next batch tries again.
    fn open_again(&mut self) -> io::Result<bool> {
        let file = open(&self.path).map_err(|error| {
            let why = format!("cannot open {} again: {error}", self.path.display());
            io::Error::new(error.kind(), why)
        })?;
        // No name is left of a file that was deleted.
        let deleted = self.file.metadata().is_ok_and(|open| open.nlink() == 0);
        self.file = file;
        let (path, what) = (self.path.display(), if deleted { "deleted" } else { "moved away" });
        tracing::info!(target: "glassbox", %path, "the file of event lines was {what}; lines go on under its name");
        Ok(self.ends_inside_a_line())
    }

    /// What has no last line, as a pipe or a device, ends inside none.
    fn ends_inside_a_line(&self) -> bool {
        let last = || -> io::Result<u8> {
            if !self.file.metadata()?.is_file() {
                return Err(io::ErrorKind::Unsupported.into());
            }
            let mut file = File::open(&self.path)?;
            file.seek(io::SeekFrom::End(-1))?;
            let mut last = [0];
            file.read_exact(&mut last)?;
            Ok(last[0])
        };
        last().is_ok_and(|last| last != b'\n')
    }
}

/// Opens for appending without waiting for anybody. A write waits all the same, as for any reader
/// that is slow.
fn open(path: &Path) -> io::Result<File> {
    let waits_not = options().create(true).custom_flags(libc::O_NONBLOCK).open(path);
    let first = waits_not.map_err(|error| if is_unread_pipe(path, &error) { nobody_reads() } else { error })?;
    let kind = first.metadata()?.file_type();
    if kind.is_file() {
        return Ok(first);
    }
    // Another reader may leave right now. With this one the open below does not wait even so; it
    // may be forbidden to read, and then only that moment is a risk.
    let _reader = kind.is_fifo().then(|| OpenOptions::new().read(true).custom_flags(libc::O_NONBLOCK).open(path));
    // `first` is open until then, so that the reader does not see an end between the two.
    options().open(path)
}

fn options() -> OpenOptions {
    let mut options = OpenOptions::new();
    options.append(true);
    options
}

fn is_unread_pipe(path: &Path, error: &io::Error) -> bool {
    error.raw_os_error() == Some(libc::ENXIO) && fs::metadata(path).is_ok_and(|found| found.file_type().is_fifo())
}

fn nobody_reads() -> io::Error {
    let what = "nobody reads this pipe; start its reader first, or name a file or `stdout`";
    io::Error::new(io::ErrorKind::NotConnected, what)
}

#[cfg(test)]
mod tests {
    use std::process::Command;

    use super::*;

    struct World {
        folder: tempfile::TempDir,
        place: Place,
        torn: bool,
    }

    impl World {
        fn path(&self, name: &str) -> PathBuf {
            self.folder.path().join(name)
        }

        /// A place with one line in it.
        fn new() -> Self {
            let folder = tempfile::tempdir().expect("a folder");
            let (named, torn) = Named::open(&folder.path().join("events")).expect("opened");
            let mut world = Self { folder, place: Place::Named(named), torn };
            world.batch("one\n").expect("written");
            world
        }

        fn batch(&mut self, text: &str) -> io::Result<()> {
            self.torn = self.place.ready(self.torn)?;
            assert_eq!(self.place.write(text.as_bytes())?, text.len());
            Ok(())
        }

        fn text(&self, name: &str) -> String {
            fs::read_to_string(self.path(name)).expect("a file")
        }
    }

    fn pipe(folder: &Path) -> PathBuf {
        let path = folder.join("pipe");
        assert!(Command::new("mkfifo").arg(&path).status().expect("mkfifo is there").success());
        path
    }

    fn reader(path: &Path) -> File {
        OpenOptions::new().read(true).custom_flags(libc::O_NONBLOCK).open(path).expect("a reader")
    }

    fn heard(mut reader: &File) -> String {
        let mut text = [0; 100];
        let read = reader.read(&mut text).expect("something to read");
        String::from_utf8(text[..read].to_vec()).expect("UTF-8")
    }

    #[test]
    fn lines_go_on_under_the_name_when_the_file_is_moved_away() {
        let mut world = World::new();
        fs::rename(world.path("events"), world.path("events.1")).expect("moved");
        world.batch("two\n").expect("written");
        world.batch("three\n").expect("written");
        assert_eq!((world.text("events.1").as_str(), world.text("events").as_str()), ("one\n", "two\nthree\n"));
    }

    #[test]
    fn a_deleted_file_is_made_again() {
        let mut world = World::new();
        fs::remove_file(world.path("events")).expect("deleted");
        world.batch("two\n").expect("written");
        assert_eq!(world.text("events"), "two\n");
    }

    #[test]
    fn another_file_under_the_name_is_appended_to() {
        let mut world = World::new();
        fs::write(world.path("other"), "old\nha").expect("written");
        fs::rename(world.path("other"), world.path("events")).expect("replaced");
        world.batch("two\n").expect("written");
        assert_eq!(world.text("events"), "old\nhatwo\n");
        assert!(world.torn, "the writer is told to begin a new line");
    }

    #[test]
    fn a_file_that_is_copied_and_emptied_is_gone_on_with() {
        let mut world = World::new();
        fs::copy(world.path("events"), world.path("events.1")).expect("copied");
        File::options().write(true).truncate(true).open(world.path("events")).expect("emptied");
        world.batch("two\n").expect("written");
        assert_eq!((world.text("events.1").as_str(), world.text("events").as_str()), ("one\n", "two\n"));
    }

    #[test]
    fn what_cannot_be_opened_again_is_tried_again() {
        let mut world = World::new();
        fs::rename(world.path("events"), world.path("events.1")).expect("moved");
        fs::create_dir(world.path("events")).expect("in the way");
        let why = world.batch("two\n").expect_err("a folder").to_string();
        assert!(why.starts_with(&format!("cannot open {} again: ", world.path("events").display())), "{why}");
        fs::remove_dir(world.path("events")).expect("out of the way");
        world.batch("three\n").expect("written");
        assert_eq!((world.text("events.1").as_str(), world.text("events").as_str()), ("one\n", "three\n"));
    }

    #[test]
    fn a_pipe_without_a_reader_is_refused_and_not_waited_for() {
        let folder = tempfile::tempdir().expect("a folder");
        let error = Named::open(&pipe(folder.path())).err().expect("no reader");
        assert!(error.to_string().starts_with("nobody reads this pipe; start its reader first"), "{error}");
    }

    #[test]
    fn a_pipe_is_written_to_while_somebody_reads_it() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = pipe(folder.path());
        let first = reader(&path);
        let (named, torn) = Named::open(&path).expect("a reader is there");
        let mut world = World { folder, place: Place::Named(named), torn };
        world.batch("one\n").expect("written");
        assert_eq!(heard(&first), "one\n");
        drop(first);
        assert_eq!(world.batch("two\n").expect_err("no reader").kind(), io::ErrorKind::BrokenPipe);
        let second = reader(&path);
        world.batch("three\n").expect("written");
        assert_eq!(heard(&second), "three\n");
    }
}
