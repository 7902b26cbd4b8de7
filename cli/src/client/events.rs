//! Server-sent events, as the HTML standard defines their format.

/// An event of a stream.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct ServerEvent {
    /// Its name; empty without one.
    pub(crate) name: String,
    /// Its data.
    pub(crate) data: String,
    /// The newest id of the stream, with which the stream can be resumed.
    pub(crate) id: Option<String>,
}

/// Reads events from the bytes of a stream, which arrive in pieces of any size.
#[derive(Debug, Default)]
pub(crate) struct EventReader {
    pending: Vec<u8>,
    event: ServerEvent,
    has_data: bool,
    id: Option<String>,
}

impl EventReader {
    /// The most bytes of a line: an event has the state of a whole job.
    const LONGEST: usize = 16 << 20;

    /// Takes the next bytes; returns the complete events. `None` if a line is longer than any event of a server.
    pub(crate) fn read(&mut self, bytes: &[u8]) -> Option<Vec<ServerEvent>> {
        let mut events = Vec::new();
        let mut rest = bytes;
        while let Some(end) = rest.iter().position(|byte| *byte == b'\n') {
            self.pending.extend_from_slice(&rest[..end]);
            let line = std::mem::take(&mut self.pending);
            events.extend(self.read_line(String::from_utf8_lossy(&line).trim_end_matches('\r')));
            rest = &rest[end + 1..];
        }
        self.pending.extend_from_slice(rest);
        (self.pending.len() <= Self::LONGEST).then_some(events)
    }

    fn read_line(&mut self, line: &str) -> Option<ServerEvent> {
        if line.is_empty() {
            let event = std::mem::take(&mut self.event);
            let complete = ServerEvent { id: self.id.clone(), ..event };
            return std::mem::take(&mut self.has_data).then_some(complete);
        }
        let (field, value) = line.split_once(':').unwrap_or((line, ""));
        let value = value.strip_prefix(' ').unwrap_or(value);
        match field {
            "event" => value.clone_into(&mut self.event.name),
            "data" => {
                if self.has_data {
                    self.event.data.push('\n');
                }
                self.event.data.push_str(value);
                self.has_data = true;
            }
            "id" if !value.contains('\0') => self.id = Some(value.to_owned()),
            // Comments, which keep the connection alive, and unknown fields.
            _ => {}
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::{EventReader, ServerEvent};

    const STREAM: &str =
        ": beat\n\nevent: job\ndata: {\"a\":\ndata:1}\nid: v1\nretry: 2000\n\nid: v2\n\ndata: ε\r\n\r\n";

    fn event(name: &str, data: &str, id: &str) -> ServerEvent {
        ServerEvent { name: name.to_owned(), data: data.to_owned(), id: Some(id.to_owned()) }
    }

    #[test]
    fn events_are_read_from_pieces_of_any_size() {
        for size in [1, 2, 7, STREAM.len()] {
            let mut reader = EventReader::default();
            let pieces = STREAM.as_bytes().chunks(size);
            let events: Vec<ServerEvent> = pieces.flat_map(|piece| reader.read(piece).expect("short lines")).collect();
            assert_eq!(events, [event("job", "{\"a\":\n1}", "v1"), event("", "ε", "v2")], "{size}");
        }
    }

    #[test]
    fn endless_line_is_refused() {
        let mut reader = EventReader::default();
        let piece = vec![b'x'; 1 << 20];
        assert!((0..16).all(|_| reader.read(&piece).is_some()));
        assert!(reader.read(&piece).is_none());
    }
}
