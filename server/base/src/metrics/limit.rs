//! The limits that are counted when they are reached, with their labels.

use prometheus_client::encoding::EncodeLabelSet;

/// A limit that is counted when it is reached.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Limit {
    /// Connections of a listener.
    Connections,
    /// Connections of a listener from one address.
    ConnectionsOfAddress,
    /// Open files of the process.
    OpenFiles,
    /// Time of a TLS handshake.
    Handshake,
    /// Time from a connection to its first request.
    FirstRequest,
    /// Time of a connection without a request, or without a sign of life.
    Idle,
    /// Time of a connection whose caller was never recognized.
    StrangerAge,
    /// Bytes of the head of a request over HTTP/1; over HTTP/2 the library answers and says nothing.
    HeaderSize,
    /// Size of a request of REST or the dashboard: of its body, or of what it asks for.
    RequestSize,
    /// Time that a client leaves a response unread.
    UnreadAnswer,
    /// Bytes of request bodies in memory.
    RequestBytes,
    /// Time until a response begins.
    RequestTime,
    /// Bytes of one gRPC message.
    MessageSize,
    /// Bytes of gRPC messages in memory.
    MessageBytes,
    /// Time for a gRPC message to arrive.
    MessageTime,
    /// Event streams.
    EventStreams,
    /// Wrong attempts to get in, after which a door is closed.
    WrongAttempts,
    /// Passwords that wait to be hashed.
    PasswordQueue,
    /// Concurrent exports.
    Exports,
    /// Bytes of an export.
    ExportBytes,
    /// Writes of an organization's workers.
    OrganizationWrites,
    /// Bytes of the files of a job, or of the jobs that an organization leads.
    StoredBytes,
    /// Datasets of a worker.
    Datasets,
}

impl Limit {
    /// Every limit.
    pub const ALL: [Self; 23] = [
        Self::Connections,
        Self::ConnectionsOfAddress,
        Self::OpenFiles,
        Self::Handshake,
        Self::FirstRequest,
        Self::Idle,
        Self::StrangerAge,
        Self::HeaderSize,
        Self::RequestSize,
        Self::UnreadAnswer,
        Self::RequestBytes,
        Self::RequestTime,
        Self::MessageSize,
        Self::MessageBytes,
        Self::MessageTime,
        Self::EventStreams,
        Self::WrongAttempts,
        Self::PasswordQueue,
        Self::Exports,
        Self::ExportBytes,
        Self::OrganizationWrites,
        Self::StoredBytes,
        Self::Datasets,
    ];

    /// Returns the label of the limit.
    pub const fn label(self) -> &'static str {
        match self {
            Self::Connections => "connections",
            Self::ConnectionsOfAddress => "connections_of_address",
            Self::OpenFiles => "open_files",
            Self::Handshake => "handshake",
            Self::FirstRequest => "first_request",
            Self::Idle => "idle",
            Self::StrangerAge => "stranger_age",
            Self::HeaderSize => "header_size",
            Self::RequestSize => "request_size",
            Self::UnreadAnswer => "unread_answer",
            Self::RequestBytes => "request_bytes",
            Self::RequestTime => "request_time",
            Self::MessageSize => "message_size",
            Self::MessageBytes => "message_bytes",
            Self::MessageTime => "message_time",
            Self::EventStreams => "event_streams",
            Self::WrongAttempts => "wrong_attempts",
            Self::PasswordQueue => "password_queue",
            Self::Exports => "exports",
            Self::ExportBytes => "export_bytes",
            Self::OrganizationWrites => "organization_writes",
            Self::StoredBytes => "stored_bytes",
            Self::Datasets => "datasets",
        }
    }
}

/// The label set of a limit.
#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
pub(super) struct LimitLabel {
    /// See [`Limit::label`].
    pub(super) limit: &'static str,
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::Limit;
    use crate::metrics::{Metrics, Transactions};

    #[test]
    fn every_limit_has_a_label_of_its_own() {
        let labels: BTreeSet<_> = Limit::ALL.iter().map(|limit| limit.label()).collect();
        assert_eq!(labels.len(), Limit::ALL.len());
    }

    #[test]
    fn reached_limit_is_counted_and_others_stand_at_zero() {
        let metrics = Metrics::new(Transactions::default());
        metrics.reach(Limit::Exports);
        assert_eq!((metrics.reached(Limit::Exports), metrics.reached(Limit::Connections)), (1, 0));
        let mut text = String::new();
        prometheus_client::encoding::text::encode(&mut text, &metrics.registry()).expect("text");
        assert!(text.contains("undertone_limits_reached_total{limit=\"exports\"} 1"), "{text}");
        assert!(text.contains("undertone_limits_reached_total{limit=\"connections\"} 0"), "an alert needs it: {text}");
    }
}
