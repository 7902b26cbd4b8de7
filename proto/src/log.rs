//! The events of a site for a job's log, on the wire. The messages contain only numbers and enum values; a test reads
//! their descriptors and fails when a string is added.

use undertone_api::job::log::{Fault, Phase, SiteEvent};

use crate::v1::log_event::Event;
use crate::v1::{LogEvent, LogFault, LogPhase, LogRound};

/// An event that this version does not know.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("this is no event of a job's log")]
pub struct UnknownEvent;

impl From<SiteEvent> for Event {
    fn from(event: SiteEvent) -> Self {
        match event {
            SiteEvent::Phase { phase } => Self::Phase(wire_phase(phase).into()),
            SiteEvent::Sent { series, round, repeated } => Self::Sent(LogRound { series, round, repeated }),
            SiteEvent::Received { series, round } => Self::Received(LogRound { series, round, repeated: false }),
            SiteEvent::Missed { series, round } => Self::Missed(LogRound { series, round, repeated: false }),
            SiteEvent::Fault { fault } => Self::Fault(wire_fault(fault).into()),
        }
    }
}

impl TryFrom<LogEvent> for SiteEvent {
    type Error = UnknownEvent;

    fn try_from(event: LogEvent) -> Result<Self, UnknownEvent> {
        Ok(match event.event.ok_or(UnknownEvent)? {
            Event::Phase(number) => {
                let phase = Phase::ALL.iter().find(|phase| i32::from(wire_phase(**phase)) == number);
                Self::Phase { phase: *phase.ok_or(UnknownEvent)? }
            }
            Event::Sent(LogRound { series, round, repeated }) => Self::Sent { series, round, repeated },
            Event::Received(LogRound { series, round, .. }) => Self::Received { series, round },
            Event::Missed(LogRound { series, round, .. }) => Self::Missed { series, round },
            Event::Fault(number) => {
                let fault = Fault::ALL.iter().find(|fault| i32::from(wire_fault(**fault)) == number);
                Self::Fault { fault: *fault.ok_or(UnknownEvent)? }
            }
        })
    }
}

const fn wire_phase(phase: Phase) -> LogPhase {
    match phase {
        Phase::AwaitsTerminal => LogPhase::AwaitsTerminal,
        Phase::AwaitsSlot => LogPhase::AwaitsSlot,
        Phase::Begun => LogPhase::Begun,
        Phase::PutDown => LogPhase::PutDown,
        Phase::Done => LogPhase::Done,
        Phase::Ended => LogPhase::Ended,
    }
}

const fn wire_fault(fault: Fault) -> LogFault {
    match fault {
        Fault::RefusedByPolicy => LogFault::RefusedByPolicy,
        Fault::RefusedByLedger => LogFault::RefusedByLedger,
        Fault::RefusedAtTerminal => LogFault::RefusedAtTerminal,
        Fault::ForeignManifest => LogFault::ForeignManifest,
        Fault::DiskFull => LogFault::DiskFull,
        Fault::DiskFails => LogFault::DiskFails,
        Fault::Failed => LogFault::Failed,
    }
}

#[cfg(test)]
mod tests {
    use prost::Message as _;
    use prost_types::FileDescriptorSet;
    use prost_types::field_descriptor_proto::Type;
    use undertone_api::job::log::{Fault, Phase, SiteEvent};

    use super::UnknownEvent;
    use crate::v1::LogEvent;
    use crate::v1::log_event::Event;

    /// Checks the permitted field types of a log's messages against the wire's own descriptors.
    #[test]
    fn the_wire_of_a_log_holds_numbers_and_closed_words_only() {
        let set = FileDescriptorSet::decode(crate::DESCRIPTOR).expect("a description");
        let messages: Vec<_> = set.file.iter().flat_map(|file| &file.message_type).collect();
        let mut waiting = vec!["LogEvent".to_owned()];
        let mut fields = 0;
        while let Some(name) = waiting.pop() {
            let message = messages.iter().find(|message| message.name() == name).expect("it is described");
            for field in &message.field {
                fields += 1;
                match field.r#type() {
                    Type::Int64 | Type::Uint64 | Type::Uint32 | Type::Bool | Type::Enum => {}
                    Type::Message => {
                        waiting.push(field.type_name().rsplit('.').next().unwrap_or_default().to_owned());
                    }
                    other => panic!("{name}.{} is {other:?}: text has no place in a site's log", field.name()),
                }
            }
        }
        assert!(fields >= 10, "only {fields} fields were looked at");
    }

    #[test]
    fn events_survive_the_wire_and_unknown_ones_are_refused() {
        let rounds = [
            SiteEvent::Sent { series: 1, round: 2, repeated: true },
            SiteEvent::Received { series: 1, round: 2 },
            SiteEvent::Missed { series: 1, round: 2 },
        ];
        let phases = Phase::ALL.iter().map(|phase| SiteEvent::Phase { phase: *phase });
        let faults = Fault::ALL.iter().map(|fault| SiteEvent::Fault { fault: *fault });
        for event in rounds.into_iter().chain(phases).chain(faults) {
            let wire = LogEvent { sequence: 1, at_unix: 2, event: Some(event.into()) };
            assert_eq!(SiteEvent::try_from(wire), Ok(event));
        }
        for unknown in [None, Some(Event::Phase(0)), Some(Event::Phase(99)), Some(Event::Fault(0))] {
            let wire = LogEvent { event: unknown, ..LogEvent::default() };
            assert_eq!(SiteEvent::try_from(wire), Err(UnknownEvent));
        }
    }
}
