//! Sends notices by e-mail (SMTP).

use std::time::Duration;

use lettre::message::{Mailbox, header::ContentType};
use lettre::transport::smtp::Error as SmtpError;
use lettre::transport::smtp::authentication::Credentials;
use lettre::transport::smtp::client::{Tls, TlsParameters};
use lettre::transport::smtp::response::Code;
use lettre::{AsyncSmtpTransport, AsyncTransport as _, Message, Tokio1Executor};

use super::{OutboundError, OutboundNotice};
use crate::config::{MailConfig, MailTls};

/// The timeout of each response of the mail server.
const PATIENCE: Duration = Duration::from_secs(10);
/// The timeout of a complete e-mail.
const LONGEST: Duration = Duration::from_secs(30);

/// A mail server.
pub struct Mailer {
    transport: AsyncSmtpTransport<Tokio1Executor>,
    from: Mailbox,
}

impl Mailer {
    /// Makes the mailer of a configuration, if there is one. It opens no connection.
    ///
    /// # Errors
    /// [`OutboundError::Unusable`] names the key.
    pub fn new(config: &MailConfig) -> Result<Option<Self>, OutboundError> {
        let Some((host, port)) = config.host_and_port() else { return Ok(None) };
        let from = config.from.parse().map_err(|_| OutboundError::Unusable("mail.from"))?;
        let trusted = || TlsParameters::new(host.to_owned()).map_err(|_| OutboundError::Unusable("mail.server"));
        let tls = match config.tls {
            MailTls::Tls => Tls::Wrapper(trusted()?),
            MailTls::Starttls => Tls::Required(trusted()?),
            MailTls::None => Tls::None,
        };
        let mut builder =
            AsyncSmtpTransport::<Tokio1Executor>::builder_dangerous(host).port(port).tls(tls).timeout(Some(PATIENCE));
        if let (Some(user), Some(password)) = (&config.user, &config.password) {
            builder = builder.credentials(Credentials::new(user.clone(), password.clone()));
        }
        Ok(Some(Self { transport: builder.build(), from }))
    }

    /// Connects, greets and signs in, and sends nothing.
    ///
    /// # Errors
    /// [`OutboundError`] when the mail server does not answer, or refuses.
    pub async fn examine(&self) -> Result<(), OutboundError> {
        match tokio::time::timeout(LONGEST, self.transport.test_connection()).await {
            Ok(Ok(true)) => Ok(()),
            Ok(Err(error)) => Err(failure(&error)),
            Ok(Ok(false)) | Err(_) => Err(OutboundError::Unreachable("mail server")),
        }
    }

    /// Sends a notice to an e-mail address. `server` is the server's public address.
    ///
    /// # Errors
    /// [`OutboundError`] if the mail server did not accept it.
    pub async fn send(&self, to: &str, server: &str, notice: &OutboundNotice) -> Result<(), OutboundError> {
        let to: Mailbox = to.parse().map_err(|_| OutboundError::Unusable("the member's e-mail address"))?;
        let domain = self.from.email.domain();
        let message = Message::builder()
            .message_id(Some(format!("<{}@{domain}>", notice.id)))
            .date(notice.at.into())
            .from(self.from.clone())
            .to(to)
            .subject(format!("Undertone: {}", notice.label))
            .header(ContentType::TEXT_PLAIN)
            .body(body(server, notice))
            .map_err(|_| OutboundError::Unusable("the e-mail"))?;
        match tokio::time::timeout(LONGEST, self.transport.send(message)).await {
            Ok(Ok(_)) => Ok(()),
            Ok(Err(error)) => Err(failure(&error)),
            Err(_) => Err(OutboundError::Unreachable("mail server")),
        }
    }
}

fn failure(error: &SmtpError) -> OutboundError {
    let refused = |code: Code| OutboundError::Refused { channel: "mail server", status: code.into() };
    error.status().map_or(OutboundError::Unreachable("mail server"), refused)
}

fn body(server: &str, notice: &OutboundNotice) -> String {
    format!(
        "{}\n\nYour notifications: {server}{}\n\nThis notice is about the security of your account or organization.\n",
        notice.text,
        super::NOTIFICATIONS_PAGE
    )
}
