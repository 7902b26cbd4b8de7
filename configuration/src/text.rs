//! The text of a configuration file (TOML), in which a mistake has a line.

/// The text of a configuration file. Keys that are set inside of an inline table have no line.
#[derive(Debug, Clone, Copy)]
pub struct ConfigText<'a>(&'a str);

impl<'a> ConfigText<'a> {
    /// Makes the text of a file.
    pub const fn new(text: &'a str) -> Self {
        Self(text)
    }

    /// Returns the line, from 1, that sets a key or begins its table.
    pub fn find_line(self, key: &str) -> Option<usize> {
        let (table, name) = key.rsplit_once('.').unwrap_or(("", key));
        let mut section = "";
        for (line, number) in self.0.lines().zip(1..) {
            let line = line.trim();
            if line.starts_with('[') {
                section = section_name(line);
                if section == key {
                    return Some(number);
                }
            } else if let Some(name_on_line) = assigned_name(line)
                && ((section == table && name_on_line == name) || (section.is_empty() && name_on_line == key))
            {
                return Some(number);
            }
        }
        None
    }

    /// Returns the line, from 1, of a position in bytes.
    pub fn line_at(self, position: usize) -> usize {
        self.0.bytes().take(position).filter(|byte| *byte == b'\n').count() + 1
    }

    /// Returns the key that is set on a line, with its table; empty if there is none.
    pub fn key_on(self, number: usize) -> String {
        let lines: Vec<&str> = self.0.lines().take(number).map(str::trim).collect();
        let section = lines.iter().rev().find(|line| line.starts_with('[')).map_or("", |line| section_name(line));
        match (section, lines.last().and_then(|line| assigned_name(line))) {
            (_, None) => String::new(),
            ("", Some(name)) => name.to_owned(),
            (section, Some(name)) => format!("{section}.{name}"),
        }
    }

    /// Returns the place of a key as compilers write it: `file:line`, or the file alone.
    pub fn place_of(self, file: &str, key: &str) -> String {
        self.find_line(key).map_or_else(|| file.to_owned(), |line| format!("{file}:{line}"))
    }
}

/// Returns the name of the table that begins on a line.
fn section_name(line: &str) -> &str {
    line.split('#').next().unwrap_or_default().trim().trim_matches(['[', ']']).trim()
}

fn assigned_name(line: &str) -> Option<&str> {
    let (name, _) = line.split_once('=')?;
    Some(name.trim().trim_matches('"'))
}

#[cfg(test)]
mod tests {
    use super::ConfigText;

    const TEXT: &str =
        "# first\nhttp = \"a\"\ntls.mode = \"on\"\n[store] # objects\n\"url\" = \"b\"\n[[providers]]\nname = 1\n";

    #[test]
    fn keys_are_found_on_their_lines() {
        let text = ConfigText::new(TEXT);
        for (key, line) in
            [("http", 2), ("tls.mode", 3), ("store", 4), ("store.url", 5), ("providers", 6), ("providers.name", 7)]
        {
            assert_eq!(text.find_line(key), Some(line), "{key}");
        }
        assert_eq!([text.find_line("url"), text.find_line("store.http")], [None, None]);
        assert_eq!(text.place_of("server.toml", "store.url"), "server.toml:5");
        assert_eq!(text.place_of("server.toml", "grpc"), "server.toml");
    }

    #[test]
    fn lines_name_their_keys() {
        let text = ConfigText::new(TEXT);
        assert_eq!([1, 2, 3, 4, 5].map(|line| text.key_on(line)), ["", "http", "tls.mode", "", "store.url"]);
        assert_eq!([0, 7, 8].map(|position| text.line_at(position)), [1, 1, 2]);
    }
}
