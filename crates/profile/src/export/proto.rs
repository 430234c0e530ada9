//! Protobuf's wire format: as much of it as writing needs (protobuf.dev, *Encoding*).

/// A message under construction.
#[derive(Debug, Default, Clone)]
pub(super) struct Message(pub(super) Vec<u8>);

impl Message {
    fn raw(&mut self, mut value: u64) {
        while value >= 0x80 {
            // The low seven bits.
            self.0.push((value & 0x7F) as u8 | 0x80);
            value >>= 7;
        }
        self.0.push(value as u8);
    }

    /// A field of an integer type; 0 is written too.
    pub(super) fn number(&mut self, field: u32, value: u64) -> &mut Self {
        self.raw(u64::from(field) << 3);
        self.raw(value);
        self
    }

    /// A string or bytes field.
    pub(super) fn bytes(&mut self, field: u32, value: &[u8]) -> &mut Self {
        self.raw(u64::from(field) << 3 | 2);
        self.raw(value.len() as u64);
        self.0.extend_from_slice(value);
        self
    }

    /// A message field.
    pub(super) fn message(&mut self, field: u32, value: &Self) -> &mut Self {
        self.bytes(field, &value.0)
    }

    /// A packed field of integers.
    pub(super) fn packed(
        &mut self,
        field: u32,
        values: impl IntoIterator<Item = u64>,
    ) -> &mut Self {
        let mut inner = Self::default();
        values.into_iter().for_each(|value| inner.raw(value));
        self.bytes(field, &inner.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_examples_of_the_encoding_page() {
        let mut message = Message::default();
        message.number(1, 150);
        assert_eq!(message.0, [0x08, 0x96, 0x01]);
        let mut message = Message::default();
        message.bytes(2, b"testing");
        assert_eq!(message.0, b"\x12\x07testing");
        let mut message = Message::default();
        message.packed(6, [3, 270, 86942]);
        assert_eq!(message.0, [0x32, 0x06, 0x03, 0x8E, 0x02, 0x9E, 0xA7, 0x05]);
    }
}
