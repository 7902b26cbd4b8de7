//! Checks the names of recordings as paths of their transcripts. The transcripts of each recording have its name, so
//! none of these files may have the path of another recording's folder. Callers check this before the ledger is
//! charged, because the transcripts could not be written afterwards.

use std::collections::BTreeMap;
use std::path::Path;

use crate::transcript_format::Format;
use undertone_worker_site::folder::hidden;

/// Returns the first two recordings that cannot both have transcripts, because a file of the first has the path of a
/// folder of the second; `None` if there is no such pair. Names are paths without extensions, as in
/// [`Recording`](super::Recording).
pub fn collision<'a>(mut names: impl Iterator<Item = &'a str> + Clone) -> Option<(&'a str, &'a str)> {
    let mut folders: BTreeMap<&Path, &str> = BTreeMap::new();
    for name in names.clone() {
        for folder in Path::new(name).ancestors().skip(1) {
            folders.entry(folder).or_insert(name);
        }
    }
    let other_name = |name: &str| {
        Format::ALL.into_iter().find_map(|format| {
            let file = format!("{name}.{}", format.extension());
            let file = Path::new(&file);
            // During writing, the file has a second, temporary name.
            folders.get(file).or_else(|| folders.get(hidden(file).as_path())).copied()
        })
    };
    names.find_map(|name| other_name(name).map(|other| (name, other)))
}

#[cfg(test)]
mod tests {
    use super::collision;

    #[test]
    fn transcript_path_collision_is_found() {
        for format in ["txt", "srt", "vtt", "json"] {
            for inside in [format!("a.{format}/b"), format!("a.{format}/deep/er/b"), format!(".a.{format}.new/b")] {
                let names = ["0", "a", inside.as_str(), "z"];
                assert_eq!(collision(names.into_iter()), Some(("a", inside.as_str())));
                assert_eq!(collision(names.into_iter().rev()), Some(("a", inside.as_str())), "in any order");
            }
            let below = format!("ward/a.{format}/b");
            assert_eq!(collision(["ward/a", &below].into_iter()), Some(("ward/a", below.as_str())));
        }
    }

    #[test]
    fn similar_names_do_not_collide() {
        let names = ["a", "a.txt", "a/b", "a.wav/b", "b/a.txt/c", "a.txt.new/b", "A.json/b", ".a.txt"];
        assert_eq!(collision(names.into_iter()), None);
        assert_eq!(collision(std::iter::empty()), None);
    }
}
