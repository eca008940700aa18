//! The command line of `import`.

use std::path::PathBuf;

use clap::{Args, Subcommand, ValueEnum, builder::PossibleValue};

use crate::import::crontab::Format;

const VERDICTS: &str = "Each line is exact, translated (with the reason why that means the same) or refused (with what to do). \
                        Exit code 0 if none is refused, 1 if one is; what is not refused is written all the same.";

#[derive(Debug, Subcommand)]
pub enum Import {
    /// Make a jobs file of a crontab
    #[command(after_help = format!("Examples:
  crontab -l | ql3 import crontab - --format user --tz Europe/Berlin
  crontab -l | ql3 import crontab - --format user --tz Europe/Berlin -o jobs.toml
  ql3 import crontab /etc/crontab --format system --user root --tz UTC

{VERDICTS}
A crontab runs in the machine's zone, which ql3 never reads: `timedatectl` or `readlink /etc/localtime` shows it."))]
    Crontab {
        /// Whether a user stands before each command
        #[arg(long, value_name = "FORMAT")]
        format: Format,
        /// The user that will start `ql3 up`: only its lines of a system crontab are imported [default: you]
        #[arg(long, value_name = "NAME")]
        user: Option<String>,
        #[command(flatten)]
        target: ImportTarget,
    },
    /// Make a jobs file of the tasks of a Qinglong panel
    #[command(after_help = format!("Examples:
  ql3 import qinglong crons.json --tz Asia/Shanghai
  ql3 import qinglong crons.json --tz Asia/Shanghai -o jobs.toml

FILE is the JSON list of scheduled tasks, as the panel's API answers at /open/crons.
{VERDICTS}"))]
    Qinglong {
        #[command(flatten)]
        target: ImportTarget,
    },
}

#[derive(Debug, Args)]
pub struct ImportTarget {
    /// The file to read, `-` for standard input
    pub file: PathBuf,
    /// Write the jobs file here [default: only report]
    #[arg(short, long, value_name = "JOBS.TOML")]
    pub output: Option<PathBuf>,
    /// Replace the output file if it exists
    #[arg(long, requires = "output")]
    pub force: bool,
    /// The IANA zone of schedules that name none, such as Europe/Berlin
    #[arg(long, value_name = "ZONE")]
    pub tz: Option<String>,
}

impl ValueEnum for Format {
    fn value_variants<'a>() -> &'a [Self] {
        &[Self::User, Self::System]
    }

    fn to_possible_value(&self) -> Option<PossibleValue> {
        let help = match self {
            Self::User => "five fields and a command, as `crontab -l` prints it",
            Self::System => "five fields, a user and a command: /etc/crontab, /etc/cron.d/*",
        };
        Some(PossibleValue::new(self.as_str()).help(help))
    }
}
