//! Names of recordings as places of their transcripts: each recording's lie in files of its name, so none of them may lie where the
//! folder of another has to be. To be asked before anything is paid, for nothing can be written there afterwards.

use std::collections::BTreeMap;
use std::path::Path;

use crate::site::folder::hidden;
use crate::speech::transcribe::transcript::Format;

/// The first two recordings that cannot both have transcripts: a file of the first has the path of a folder of the second. Nothing
/// where all have places of their own. Names are paths without endings, as in [`Recording`](super::Recording).
pub fn collision<'a>(mut names: impl Iterator<Item = &'a str> + Clone) -> Option<(&'a str, &'a str)> {
    let mut folders: BTreeMap<&Path, &str> = BTreeMap::new();
    for name in names.clone() {
        for folder in Path::new(name).ancestors().skip(1) {
            folders.entry(folder).or_insert(name);
        }
    }
    let taken = |name: &str| {
        Format::ALL.into_iter().find_map(|format| {
            let file = format!("{name}.{}", format.extension());
            let file = Path::new(&file);
            // While it is written a file has another name beside its own.
            folders.get(file).or_else(|| folders.get(hidden(file).as_path())).copied()
        })
    };
    names.find_map(|name| taken(name).map(|other| (name, other)))
}

#[cfg(test)]
mod tests {
    use super::collision;

    #[test]
    fn a_transcript_never_lies_where_the_folder_of_another_recording_is() {
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
    fn names_that_only_look_alike_have_places_of_their_own() {
        let names = ["a", "a.txt", "a/b", "a.wav/b", "b/a.txt/c", "a.txt.new/b", "A.json/b", ".a.txt"];
        assert_eq!(collision(names.into_iter()), None);
        assert_eq!(collision(std::iter::empty()), None);
    }
}
