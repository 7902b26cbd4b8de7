//! The log of a job: the events of its parts, in numbers and in words of closed lists.
//!
//! A site may send a [`SiteEvent`] and nothing else. The type has no text, so no transcript, file name, figure or error
//! message can travel in it, whatever a run does. Events occur only at moments that the server sees anyway (a mean is
//! fetched, a vector arrives, a part ends) or that do not depend on the data (policy, approval, disk). So the log
//! reveals nothing about the data beyond the exchange itself.
//!
//! To add an event of a site: a variant of [`SiteEvent`] with numbers or words only, its message in `worker.proto`, its
//! case in `undertone_proto::log`, its sentence in [`LogEvent::sentence`]. A test reads the wire's description and fails if
//! a text field is added.

use serde::{Deserialize, Serialize};
use time::OffsetDateTime;

use super::{JobState, Spec};
use crate::id::DatasetId;

/// The most events in one message of a site.
pub const MOST_EVENTS: usize = 100;
/// The most lines kept of one participant, and also of the server; the oldest are deleted first.
pub const MOST_LINES: u64 = 1000;

macro_rules! words {
    ($(#[$doc:meta])* $name:ident { $($(#[$of:meta])* $variant:ident = $level:ident, $said:literal;)* }) => {
        $(#[$doc])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
        #[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
        #[serde(rename_all = "snake_case")]
        pub enum $name { $($(#[$of])* $variant,)* }

        impl $name {
            /// Every variant, in the order of the list.
            pub const ALL: &'static [Self] = &[$(Self::$variant,)*];

            /// Returns the severity.
            pub const fn level(self) -> LogLevel {
                match self { $(Self::$variant => LogLevel::$level,)* }
            }

            /// Returns the sentence without its subject.
            pub const fn phrase(self) -> &'static str {
                match self { $(Self::$variant => $said,)* }
            }
        }
    };
}

/// The severity of a line.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema), schema(as = Level))]
#[serde(rename_all = "snake_case")]
pub enum LogLevel {
    /// As planned.
    Info,
    /// A member or operator may have to act.
    Warning,
    /// A failure.
    Error,
}

words! {
    /// The progress of a site in its part.
    Phase {
        /// No one at the site's terminal has approved it yet.
        AwaitsTerminal = Warning, "waits for somebody at the site's terminal to approve the job";
        /// The site runs as many jobs as it allows.
        AwaitsSlot = Warning, "waits for another run of the site to end";
        /// The run has started.
        Begun = Info, "began its part";
        /// The run is suspended, and will be resumed.
        PutDown = Info, "put its part down, to take it up again";
        /// The run is done.
        Done = Info, "did its part";
        /// The job ended before the part did.
        Ended = Info, "stopped because the job is over";
    }
}

words! {
    /// The reason of a failed part, as far as other parties may know it.
    Fault {
        /// The site's policy refused it.
        RefusedByPolicy = Error, "was refused by the site's policy";
        /// The site's ledger refused it.
        RefusedByLedger = Error, "was refused by the site's ledger";
        /// The site's operator refused it at the terminal.
        RefusedAtTerminal = Error, "was refused at the site's terminal";
        /// The document is not the job's.
        ForeignManifest = Error, "was offered work under a manifest that is not the job's";
        /// The disk is full.
        DiskFull = Error, "stopped because the site's disk is full";
        /// The disk fails for another reason.
        DiskFails = Error, "stopped because the site's disk fails";
        /// Any other failure. The site's own log states the reason.
        Failed = Error, "failed; the site's own log says why";
    }
}

words! {
    /// The reason for which a site takes no further part in a masked round: the server shows another state of the round
    /// than the site has recorded. A server that was restored from an older state does so.
    StepConflict {
        /// The site has accepted another list of advertisements.
        Advertisements = Warning, "has accepted other advertisements than the server shows";
        /// The site has masked its vector with other shares.
        Shares = Warning, "has masked its vector with other shares than the server shows";
        /// The site has signed another set of survivors.
        Survivors = Warning, "has signed another set of survivors than the server shows";
        /// The server lacks the site's vector, and so does the site.
        Vector = Warning, "no longer has the vector that the server lacks";
        /// The site has fetched the average of the round.
        Ended = Warning, "has ended the round that is open at the server";
    }
}

/// An event of a site's part. It holds numbers and words of closed lists only.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(tag = "event", rename_all = "snake_case")]
pub enum SiteEvent {
    /// The part entered another phase.
    Phase {
        /// The phase.
        phase: Phase,
    },
    /// The server has received the part's vector, or its pool, of a round.
    Sent {
        /// The series, by its place in the job's plan.
        series: u32,
        /// The round.
        round: u32,
        /// Whether the server already had it.
        repeated: bool,
    },
    /// The part has received the mean of a round.
    Received {
        /// The series, by its place in the job's plan.
        series: u32,
        /// The round.
        round: u32,
    },
    /// A round closed without the part's vector.
    Missed {
        /// The series, by its place in the job's plan.
        series: u32,
        /// The round.
        round: u32,
    },
    /// The part failed.
    Fault {
        /// The reason, as far as other parties may know it.
        fault: Fault,
    },
}

/// An event in the log, reported by a site or by the server.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(tag = "from", rename_all = "snake_case")]
pub enum LogEvent {
    /// An event that a site reported.
    Site {
        /// The event.
        said: SiteEvent,
    },
    /// The job entered another state.
    State {
        /// The state.
        state: JobState,
    },
    /// A round closed.
    Closed {
        /// The series, by its place in the job's plan.
        series: u32,
        /// The round.
        round: u32,
        /// The number of contributors.
        contributors: u32,
        /// The number of possible contributors.
        of: u32,
    },
    /// A site takes no further part in a masked round, because this server shows another state of it.
    Refused {
        /// The series, by its place in the job's plan.
        series: u32,
        /// The round.
        round: u32,
        /// The reason.
        conflict: StepConflict,
    },
    /// A worker took the lease of its part.
    Leased {
        /// The number of times that it has. The name is not `number`, because the line's own number is in the same
        /// object.
        times: u32,
    },
}

impl LogEvent {
    /// Returns the severity.
    pub const fn level(&self) -> LogLevel {
        match self {
            Self::Site { said: SiteEvent::Phase { phase } } => phase.level(),
            Self::Site { said: SiteEvent::Fault { fault } } => fault.level(),
            Self::Site { said: SiteEvent::Missed { .. } } => LogLevel::Warning,
            Self::Refused { conflict, .. } => conflict.level(),
            Self::State { state: JobState::Failed | JobState::Refused } => LogLevel::Error,
            Self::Closed { contributors, of, .. } if *contributors < *of => LogLevel::Warning,
            Self::Site { .. } | Self::State { .. } | Self::Closed { .. } | Self::Leased { .. } => LogLevel::Info,
        }
    }

    /// Returns the series and the round of the event.
    pub const fn round(&self) -> Option<(u32, u32)> {
        match self {
            Self::Site {
                said:
                    SiteEvent::Sent { series, round, .. }
                    | SiteEvent::Received { series, round }
                    | SiteEvent::Missed { series, round },
            }
            | Self::Closed { series, round, .. }
            | Self::Refused { series, round, .. } => Some((*series, *round)),
            Self::Site { said: SiteEvent::Phase { .. } | SiteEvent::Fault { .. } }
            | Self::State { .. }
            | Self::Leased { .. } => None,
        }
    }

    /// Returns the event as a sentence whose subject is the participant, or the job. `series` is the name of its
    /// series.
    pub fn sentence(&self, series: &str) -> String {
        match self {
            Self::Site { said: SiteEvent::Phase { phase } } => phase.phrase().to_owned(),
            Self::Site { said: SiteEvent::Fault { fault } } => fault.phrase().to_owned(),
            Self::Site { said: SiteEvent::Sent { round, repeated, .. } } => {
                let again = if *repeated { ", which the server had already" } else { "" };
                format!("sent its vector of round {round}, {series}{again}")
            }
            Self::Site { said: SiteEvent::Received { round, .. } } => {
                format!("fetched the mean of round {round}, {series}")
            }
            Self::Site { said: SiteEvent::Missed { round, .. } } => {
                format!("came too late for round {round}, {series}; its vector stays paid")
            }
            Self::State { state } => format!("is {}", state.label()),
            Self::Closed { round, contributors, of, .. } => {
                format!("closed round {round}, {series}, with {contributors} of {of} vectors")
            }
            Self::Refused { round, conflict, .. } => {
                format!("{}: it takes no further part in round {round}, {series}", conflict.phrase())
            }
            Self::Leased { times: 1 } => "took its part up".to_owned(),
            Self::Leased { times } => format!("took its part up, for the {} time", ordinal(*times)),
        }
    }
}

/// Returns the English ordinal: 1st, 2nd, 3rd, 4th, 11th, 21st.
pub fn ordinal(number: u32) -> String {
    let teen = (11..=13).contains(&(number % 100));
    let ending = match number % 10 {
        1 if !teen => "st",
        2 if !teen => "nd",
        3 if !teen => "rd",
        _ => "th",
    };
    format!("{number}{ending}")
}

/// Returns the names of a job's series in the order of their numbers in the log: averaged series, then the pools'
/// series, then the series of releases outside the consortium.
pub fn list_series(spec: &Spec) -> Vec<String> {
    let averaged = spec.series(&[]).into_iter().map(|series| series.name);
    let pool_series = spec.questions().map(|questions| questions.series);
    averaged.chain(pool_series).chain(spec.external_release().map(|outside| outside.series)).collect()
}

/// A line of a job's log.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct LogLine {
    /// Its number in the job's log, from 1. Numbers of deleted lines are missing.
    pub number: u64,
    /// When it happened, by the server's clock.
    #[serde(with = "time::serde::rfc3339")]
    #[cfg_attr(feature = "openapi", schema(value_type = String, format = DateTime))]
    pub at: OffsetDateTime,
    /// The dataset of the part; absent if the line is about the job.
    pub dataset: Option<DatasetId>,
    /// The dataset's name.
    pub dataset_name: Option<String>,
    /// The name of the dataset's owner.
    pub organization_name: Option<String>,
    /// The severity.
    pub level: LogLevel,
    /// The event.
    #[serde(flatten)]
    pub event: LogEvent,
    /// The name of the series of the event.
    pub series_name: Option<String>,
    /// The event as a sentence.
    pub text: String,
}

/// A filter of lines.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::IntoParams))]
pub struct LogQuery {
    /// Only lines of one dataset's part.
    #[serde(default)]
    pub dataset: Option<DatasetId>,
    /// Only lines of this severity, or a higher one.
    #[serde(default)]
    pub level: Option<LogLevel>,
    /// The `next` of the previous page.
    #[serde(default)]
    pub cursor: Option<String>,
    /// Lines on a page: 1 to 200, 50 by default.
    #[serde(default)]
    pub limit: Option<u32>,
}

#[cfg(test)]
mod tests {
    use super::{Fault, LogEvent, LogLevel, Phase, SiteEvent, StepConflict, ordinal};

    #[test]
    fn site_events_contain_no_text() {
        let rounds = [
            SiteEvent::Sent { series: 0, round: 3, repeated: true },
            SiteEvent::Received { series: 0, round: 3 },
            SiteEvent::Missed { series: 0, round: 3 },
        ];
        let phases = Phase::ALL.iter().map(|phase| SiteEvent::Phase { phase: *phase });
        let faults = Fault::ALL.iter().map(|fault| SiteEvent::Fault { fault: *fault });
        for event in rounds.into_iter().chain(phases).chain(faults) {
            let value = serde_json::to_value(event).expect("it has a JSON form");
            for (name, value) in value.as_object().expect("an object") {
                let closed = name == "event" || name == "phase" || name == "fault";
                assert!(closed || value.is_number() || value.is_boolean(), "{event:?} says {name} as text");
            }
            assert!(!LogEvent::Site { said: event }.sentence("private").is_empty());
        }
    }

    #[test]
    fn refusal_of_a_site_names_the_round_and_the_reason() {
        let event = LogEvent::Refused { series: 0, round: 3, conflict: StepConflict::Survivors };
        assert_eq!((event.level(), event.round()), (LogLevel::Warning, Some((0, 3))));
        let sentence =
            "has signed another set of survivors than the server shows: it takes no further part in round 3, private";
        assert_eq!(event.sentence("private"), sentence);
        let text = r#"{"from":"refused","series":0,"round":3,"conflict":"survivors"}"#;
        assert_eq!(serde_json::to_string(&event).expect("it has a JSON form"), text);
    }

    /// Tests English ordinals: the last digit gives the ending, except in the teens.
    #[test]
    fn ordinal_has_its_english_ending() {
        for number in 0..=10_000 {
            let text = ordinal(number);
            let ending = text.strip_prefix(&number.to_string()).expect("the number stands first");
            let teen = number / 10 % 10 == 1;
            let suffix =
                [("st", 1), ("nd", 2), ("rd", 3)].into_iter().find(|(_, digit)| !teen && number % 10 == *digit);
            assert_eq!(ending, suffix.map_or("th", |(ending, _)| ending), "{text}");
        }
        assert_eq!(
            [1, 2, 3, 4, 11, 12, 13, 21, 102, 111].map(ordinal).join(" "),
            "1st 2nd 3rd 4th 11th 12th 13th 21st 102nd 111th"
        );
        let lease_text = |times| LogEvent::Leased { times }.sentence("");
        assert_eq!(
            (lease_text(1), lease_text(2)),
            ("took its part up".to_owned(), "took its part up, for the 2nd time".to_owned())
        );
    }

    #[test]
    fn a_round_that_lacks_a_vector_is_worth_a_warning() {
        let closed = |contributors| LogEvent::Closed { series: 0, round: 1, contributors, of: 3 }.level();
        assert_eq!((closed(3), closed(2)), (LogLevel::Info, LogLevel::Warning));
        assert!(LogLevel::Info < LogLevel::Warning && LogLevel::Warning < LogLevel::Error);
    }
}
