//! Signatures of tokens, checked by ring: the provider that `jsonwebtoken` asks.
//!
//! It signs nothing, and a key answers for its own family of algorithms only: an RSA key is never
//! taken for a shared secret.

use jsonwebtoken::{
    Algorithm, DecodingKey, DecodingKeyKind, EncodingKey,
    crypto::{CryptoProvider, JwtSigner, JwtVerifier, KeyUtils},
    errors::{ErrorKind, Result},
    signature::{self, Verifier},
};
use ring::signature as rings;

static PROVIDER: CryptoProvider = CryptoProvider {
    signer_factory: no_signer,
    verifier_factory: verifier,
    // For keys in other forms than a key set; nothing here asks for them.
    key_utils: KeyUtils::new_unimplemented(),
};

/// Makes ring the one that checks signatures, unless this process chose another already.
pub(super) fn install() {
    // An error means that there is one, which is all that is asked for.
    let _ = PROVIDER.install_default();
}

struct Check {
    algorithm: Algorithm,
    key: DecodingKeyKind,
}

fn no_signer(_: &Algorithm, _: &EncodingKey) -> Result<Box<dyn JwtSigner>> {
    Err(ErrorKind::UnsupportedAlgorithm.into())
}

fn verifier(algorithm: &Algorithm, key: &DecodingKey) -> Result<Box<dyn JwtVerifier>> {
    if key.family() != algorithm.family() {
        return Err(ErrorKind::InvalidAlgorithm.into());
    }
    Ok(Box::new(Check { algorithm: *algorithm, key: key.kind().clone() }))
}

impl Verifier<Vec<u8>> for Check {
    fn verify(&self, message: &[u8], signature: &Vec<u8>) -> std::result::Result<(), signature::Error> {
        let checked = match (rsa(self.algorithm), curve(self.algorithm), &self.key) {
            (Some(rule), _, DecodingKeyKind::RsaModulusExponent { n, e }) => {
                rings::RsaPublicKeyComponents { n, e }.verify(rule, message, signature)
            }
            (_, Some(rule), DecodingKeyKind::SecretOrDer(point)) => {
                rings::UnparsedPublicKey::new(rule, point).verify(message, signature)
            }
            _ => return Err(signature::Error::new()),
        };
        checked.map_err(|_| signature::Error::new())
    }
}

impl JwtVerifier for Check {
    fn algorithm(&self) -> Algorithm {
        self.algorithm
    }
}

fn rsa(algorithm: Algorithm) -> Option<&'static rings::RsaParameters> {
    match algorithm {
        Algorithm::RS256 => Some(&rings::RSA_PKCS1_2048_8192_SHA256),
        Algorithm::RS384 => Some(&rings::RSA_PKCS1_2048_8192_SHA384),
        Algorithm::RS512 => Some(&rings::RSA_PKCS1_2048_8192_SHA512),
        Algorithm::PS256 => Some(&rings::RSA_PSS_2048_8192_SHA256),
        Algorithm::PS384 => Some(&rings::RSA_PSS_2048_8192_SHA384),
        Algorithm::PS512 => Some(&rings::RSA_PSS_2048_8192_SHA512),
        _ => None,
    }
}

fn curve(algorithm: Algorithm) -> Option<&'static dyn rings::VerificationAlgorithm> {
    match algorithm {
        Algorithm::ES256 => Some(&rings::ECDSA_P256_SHA256_FIXED),
        Algorithm::ES384 => Some(&rings::ECDSA_P384_SHA384_FIXED),
        Algorithm::EdDSA => Some(&rings::ED25519),
        _ => None,
    }
}
