//! Protocol buffers: the parts of the encoding that an ONNX file needs.

/// A message in construction.
#[derive(Debug, Default)]
pub(crate) struct Message(Vec<u8>);

impl Message {
    /// Appends a number as a varint.
    pub(crate) fn number(mut self, field: u64, value: i64) -> Self {
        self.varint(field << 3);
        // Negative numbers have ten bytes in two's complement.
        self.varint(value.cast_unsigned());
        self
    }

    /// Appends a 32-bit floating-point number.
    pub(crate) fn float(mut self, field: u64, value: f32) -> Self {
        self.varint(field << 3 | 5);
        self.0.extend_from_slice(&value.to_le_bytes());
        self
    }

    /// Appends bytes or a text.
    pub(crate) fn bytes(mut self, field: u64, bytes: &[u8]) -> Self {
        self.varint(field << 3 | 2);
        self.varint(bytes.len() as u64);
        self.0.extend_from_slice(bytes);
        self
    }

    /// Appends a message.
    pub(crate) fn message(self, field: u64, message: &Self) -> Self {
        self.bytes(field, &message.0)
    }

    /// Returns the encoded message.
    pub(crate) fn into_bytes(self) -> Vec<u8> {
        self.0
    }

    fn varint(&mut self, mut value: u64) {
        while value >= 0x80 {
            self.0.push(value as u8 | 0x80);
            value >>= 7;
        }
        self.0.push(value as u8);
    }
}

#[cfg(test)]
mod tests {
    use super::Message;

    #[test]
    fn encoding_is_that_of_the_specification() {
        // https://protobuf.dev/programming-guides/encoding: 150 as field 1, "testing" as field 2, and nested as field 3.
        let nested = Message::default().number(1, 150);
        let message = Message::default().bytes(2, b"testing").message(3, &nested).float(4, 1.5).number(5, -2);
        let expected = "120774657374696e671a0308960125 0000c03f28feffffffffffffffff01".replace(' ', "");
        assert_eq!(hex::encode(message.into_bytes()), expected);
    }
}
