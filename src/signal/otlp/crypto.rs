//! The process-wide TLS provider. Knows nothing of spans.

/// Makes `ring` the provider of every TLS client of the process, unless one is installed already.
/// Clients that are built before panic, so whoever builds one calls this first; calling it again
/// changes nothing.
pub fn install() {
    // An error means that a provider is there already, which is all that is asked for.
    let _ = rustls::crypto::ring::default_provider().install_default();
}
