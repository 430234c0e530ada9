//! What programs are executed as.

/// What a process image was executed as.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CommandLine {
    /// The file that `execve` was given, as it was given; empty: not known.
    pub file: String,
    /// The program's arguments, its own name in front.
    pub words: Vec<String>,
}

impl std::fmt::Display for CommandLine {
    /// The words.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.words.join(" "))
    }
}
