//! TLS to a server, as its address asks for it: `sslmode` and `sslrootcert` mean what they mean to
//! `libpq`, and what is not offered is refused and not ignored.
//!
//! It must never know a statement.

use std::{
    io,
    path::Path,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll},
};

use rustls::{
    CertificateError, ClientConfig, DigitallySignedStruct, RootCertStore, SignatureScheme,
    client::{
        WebPkiServerVerifier,
        danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier},
    },
    crypto::{CryptoProvider, verify_tls12_signature, verify_tls13_signature},
    pki_types::{CertificateDer, ServerName, UnixTime, pem::PemObject as _},
};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio_postgres::{
    Config,
    config::SslMode,
    tls::{ChannelBinding, MakeTlsConnect, TlsConnect, TlsStream},
};
use tokio_rustls::{TlsConnector, client};

use crate::tool::sql::Error;

/// The modes that an address can ask for.
const MODES: &str = "disable, prefer, require, verify-ca or verify-full";

/// Makes the TLS of connections.
#[derive(Clone)]
pub(super) struct Tls(TlsConnector);

/// The TLS of one connection that is being made.
pub(super) struct Handshake {
    connector: TlsConnector,
    host: String,
}

/// A connection under TLS.
pub(super) struct Stream<S>(client::TlsStream<S>);

/// How much of a server's certificate is looked at.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Trust {
    /// Nothing: what is sent is only hidden from those who listen.
    Anybody,
    /// Who signed it.
    Authority,
    /// Who signed it, and whose it is.
    Host,
}

/// What an address says of TLS.
#[derive(Debug, PartialEq)]
struct Wanted {
    mode: SslMode,
    trust: Trust,
    /// The file with the authorities, instead of the system's.
    authorities: Option<String>,
}

#[derive(Debug)]
struct Verifier {
    provider: Arc<CryptoProvider>,
    trust: Trust,
    /// Nobody where everything is trusted.
    inner: Option<Arc<dyn ServerCertVerifier>>,
}

/// The server of an address, and the TLS that it is reached with.
///
/// # Errors
/// What is wrong, without the address, which may hold a password.
pub(super) fn parse(address: &str) -> Result<(Config, Tls), Error> {
    let (plain, wanted) = wanted(address).map_err(Error::Tls)?;
    let mut server: Config = plain.parse().map_err(|_| Error::Address)?;
    server.ssl_mode(wanted.mode);
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let verifier = Verifier::new(&wanted, &provider).map_err(Error::Tls)?;
    let config = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .expect("ring speaks TLS 1.2 and 1.3")
        .dangerous()
        .with_custom_certificate_verifier(Arc::new(verifier))
        .with_no_client_auth();
    Ok((server, Tls(TlsConnector::from(Arc::new(config)))))
}

/// Takes what is said of TLS out of an address.
fn wanted(address: &str) -> Result<(String, Wanted), String> {
    let (base, query) = address.split_once('?').unwrap_or((address, ""));
    let (mut mode, mut authorities, mut rest) = (None, None, Vec::new());
    for part in query.split('&').filter(|part| !part.is_empty()) {
        match part.split_once('=') {
            Some(("sslmode", value)) => mode = Some(value),
            Some(("sslrootcert", value)) => authorities = Some(decoded(value)).filter(|file| file != "system"),
            Some((key @ ("sslcert" | "sslkey" | "sslcrl" | "sslpassword"), _)) => {
                return Err(format!("asks for {key}, which is not supported"));
            }
            _ => rest.push(part),
        }
    }
    let (mode, mut trust) = match mode {
        None | Some("prefer") => (SslMode::Prefer, Trust::Anybody),
        Some("disable") => (SslMode::Disable, Trust::Anybody),
        Some("require") => (SslMode::Require, Trust::Anybody),
        Some("verify-ca") => (SslMode::Require, Trust::Authority),
        Some("verify-full") => (SslMode::Require, Trust::Host),
        Some(_) => return Err(format!("asks for an sslmode that is not supported: {MODES} is")),
    };
    if mode == SslMode::Require && authorities.is_some() && trust == Trust::Anybody {
        // As in libpq: whoever names authorities wants them to be asked.
        trust = Trust::Authority;
    }
    let plain = if rest.is_empty() { base.to_owned() } else { format!("{base}?{}", rest.join("&")) };
    Ok((plain, Wanted { mode, trust, authorities }))
}

/// A value of a query without its percent signs.
fn decoded(value: &str) -> String {
    let query = reqwest::Url::parse(&format!("x:?v={}", value.replace('+', "%2B")));
    query.ok().and_then(|url| url.query_pairs().next().map(|(_, text)| text.into_owned())).unwrap_or_default()
}

impl Verifier {
    fn new(wanted: &Wanted, provider: &Arc<CryptoProvider>) -> Result<Self, String> {
        let inner: Option<Arc<dyn ServerCertVerifier>> = match (wanted.trust, &wanted.authorities) {
            (Trust::Anybody, _) => None,
            (_, Some(file)) => Some(of_file(Path::new(file), provider)?),
            (_, None) => {
                let system = rustls_platform_verifier::Verifier::new(provider.clone());
                Some(Arc::new(system.map_err(|error| format!("needs the system's CA certificates: {error}"))?))
            }
        };
        Ok(Self { provider: provider.clone(), trust: wanted.trust, inner })
    }
}

/// The authorities of a file.
fn of_file(file: &Path, provider: &Arc<CryptoProvider>) -> Result<Arc<WebPkiServerVerifier>, String> {
    let wrong = |why: String| format!("names {} as sslrootcert, which cannot be used: {why}", file.display());
    let mut roots = RootCertStore::empty();
    for certificate in CertificateDer::pem_file_iter(file).map_err(|error| wrong(error.to_string()))? {
        let certificate = certificate.map_err(|error| wrong(error.to_string()))?;
        roots.add(certificate).map_err(|error| wrong(error.to_string()))?;
    }
    let verifier = WebPkiServerVerifier::builder_with_provider(Arc::new(roots), provider.clone());
    verifier.build().map_err(|error| wrong(error.to_string()))
}

impl ServerCertVerifier for Verifier {
    fn verify_server_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        server_name: &ServerName<'_>,
        ocsp_response: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        let Some(inner) = &self.inner else { return Ok(ServerCertVerified::assertion()) };
        match inner.verify_server_cert(end_entity, intermediates, server_name, ocsp_response, now) {
            // Names are judged last, so everything else is right.
            Err(rustls::Error::InvalidCertificate(
                CertificateError::NotValidForName | CertificateError::NotValidForNameContext { .. },
            )) if self.trust == Trust::Authority => Ok(ServerCertVerified::assertion()),
            judged => judged,
        }
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        verify_tls12_signature(message, cert, dss, &self.provider.signature_verification_algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        verify_tls13_signature(message, cert, dss, &self.provider.signature_verification_algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.provider.signature_verification_algorithms.supported_schemes()
    }
}

impl<S> MakeTlsConnect<S> for Tls
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    type Stream = Stream<S>;
    type TlsConnect = Handshake;
    type Error = io::Error;

    fn make_tls_connect(&mut self, host: &str) -> io::Result<Handshake> {
        Ok(Handshake { connector: self.0.clone(), host: host.to_owned() })
    }
}

impl<S> TlsConnect<S> for Handshake
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    type Stream = Stream<S>;
    type Error = io::Error;
    type Future = Pin<Box<dyn Future<Output = io::Result<Stream<S>>> + Send>>;

    fn connect(self, stream: S) -> Self::Future {
        Box::pin(async move {
            let host = ServerName::try_from(self.host).map_err(io::Error::other)?;
            self.connector.connect(host, stream).await.map(Stream)
        })
    }
}

impl<S> TlsStream for Stream<S>
where
    S: AsyncRead + AsyncWrite + Unpin,
{
    fn channel_binding(&self) -> ChannelBinding {
        ChannelBinding::none()
    }
}

impl<S: AsyncRead + AsyncWrite + Unpin> AsyncRead for Stream<S> {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_read(cx, buf)
    }
}

impl<S: AsyncRead + AsyncWrite + Unpin> AsyncWrite for Stream<S> {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.0).poll_write(cx, buf)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_shutdown(cx)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_says_how_far_its_server_is_trusted() {
        for (query, plain, mode, trust, file) in [
            ("", "", SslMode::Prefer, Trust::Anybody, None),
            ("?sslmode=disable", "", SslMode::Disable, Trust::Anybody, None),
            ("?sslmode=require&application_name=a", "?application_name=a", SslMode::Require, Trust::Anybody, None),
            ("?sslmode=require&sslrootcert=/a%20b", "", SslMode::Require, Trust::Authority, Some("/a b")),
            ("?sslrootcert=system&sslmode=verify-full", "", SslMode::Require, Trust::Host, None),
            ("?sslmode=verify-ca", "", SslMode::Require, Trust::Authority, None),
        ] {
            let (address, wanted) = wanted(&format!("postgres://me@host/x{query}")).expect("a good address");
            assert_eq!(address, format!("postgres://me@host/x{plain}"));
            assert_eq!(wanted, Wanted { mode, trust, authorities: file.map(str::to_owned) }, "{query}");
        }
    }

    #[test]
    fn what_is_not_offered_is_refused_without_the_address() {
        for (query, why) in [
            ("sslmode=allow", "asks for an sslmode that is not supported: disable, prefer, require,"),
            ("sslkey=/secret", "asks for sslkey, which is not supported"),
            ("sslmode=verify-full&sslrootcert=/no/such", "names /no/such as sslrootcert, which cannot be used: "),
        ] {
            let error = parse(&format!("postgres://me:sesame@host/x?{query}")).err().expect("refused").to_string();
            assert!(error.contains(why) && !error.contains("sesame"), "{error}");
        }
    }
}
