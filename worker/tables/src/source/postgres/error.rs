//! The reasons why PostgreSQL cannot be read.

/// The longest query and the longest filter, bytes.
pub const LONGEST_QUERY: usize = 64 << 10;

/// The reason why PostgreSQL cannot be a source.
#[derive(Debug, thiserror::Error)]
pub enum PostgresError {
    /// The address is none.
    #[error(
        "--postgres: the file holds no address of the form postgres://role:password@host/database?sslmode=verify-full"
    )]
    Url,
    /// The connection would not be encrypted.
    #[error(
        "--postgres: {host} is another machine: add ?sslmode=verify-full (and &sslrootcert=FILE for an authority of your own)"
    )]
    Insecure {
        /// The host.
        host: String,
    },
    /// A query or filter is empty or too long.
    #[error("{argument}: use 1 to {LONGEST_QUERY} bytes")]
    Length {
        /// The argument.
        argument: &'static str,
    },
    /// The role may write.
    #[error(
        "--postgres: the role `{role}` may write or administrate: use a role with SELECT on this view alone \
         (CREATE ROLE reader LOGIN; GRANT SELECT ON view TO reader)"
    )]
    MayWrite {
        /// The role.
        role: String,
    },
    /// The server refused, or the connection failed.
    #[error("PostgreSQL cannot {action}")]
    Server {
        /// The attempted action.
        action: &'static str,
        /// The reason.
        #[source]
        source: Box<sqlx::Error>,
    },
    /// The thread of the connection cannot start.
    #[error("cannot start the connection to PostgreSQL")]
    Thread(#[source] std::io::Error),
}

impl PostgresError {
    pub(super) fn server(action: &'static str) -> impl FnOnce(sqlx::Error) -> Self {
        move |source| Self::Server { action, source: Box::new(source) }
    }
}
