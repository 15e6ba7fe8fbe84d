//! `zonewise certs`.

use std::fs;
use std::io::Write as _;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};
use std::time::Duration;

use super::{Failure, values};
use crate::certs;

/// Make certificates
#[derive(Debug, clap::Subcommand)]
pub enum Command {
    Generate(GenerateArgs),
}

/// Make a CA and a server certificate for development
///
/// Writes ca.crt, tls.crt and tls.key. The CA's private key is not kept: run it again for another certificate.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  zonewise certs generate --dns localhost 127.0.0.1
  zonewise certs generate --dns zonewise.zonewise.svc --dir certs --lifetime 720h")]
pub struct GenerateArgs {
    /// Folder to write to; made where it is missing
    #[arg(
        long,
        env = "ZONEWISE_DIR",
        default_value = "certs",
        value_name = "DIR"
    )]
    dir: PathBuf,
    /// Names that clients reach the server by: DNS names or IP addresses
    #[arg(long, env = "ZONEWISE_DNS", required = true, num_args = 1.., value_delimiter = ',', value_name = "NAME")]
    dns: Vec<String>,
    /// How long they are valid
    #[arg(long, env = "ZONEWISE_LIFETIME", default_value = "8760h", value_parser = values::duration, value_name = "DURATION")]
    lifetime: Duration,
}

pub fn run(command: &Command) -> Result<(), Failure> {
    let Command::Generate(args) = command;
    if let Some(name) = args.dns.iter().find(|name| !certs::is_server_name(name)) {
        return Err(Failure::usage(format!(
            "--dns {name:?}: neither a DNS name nor an IP address"
        )));
    }
    let lifetime = time::Duration::try_from(args.lifetime)
        .map_err(|_| Failure::usage("--lifetime is too long"))?;
    let bundle = certs::generate(&args.dns, lifetime).map_err(Failure::failed)?;
    fs::create_dir_all(&args.dir).map_err(|error| failed(&args.dir, &error))?;
    for (name, text, mode) in [
        ("ca.crt", &bundle.ca, 0o644),
        ("tls.crt", &bundle.certificate, 0o644),
        ("tls.key", &bundle.key, 0o600),
    ] {
        let path = args.dir.join(name);
        write(&path, text, mode).map_err(|error| failed(&path, &error))?;
        println!("{}", path.display());
    }
    Ok(())
}

/// Writes beside the file and renames, so that a server that reads it never sees half of it.
fn write(path: &Path, text: &str, mode: u32) -> std::io::Result<()> {
    let temporary = path.with_extension("tmp");
    let mut file = fs::OpenOptions::new()
        .write(true)
        .create(true)
        .truncate(true)
        .mode(mode)
        .open(&temporary)?;
    file.write_all(text.as_bytes())?;
    fs::rename(&temporary, path)
}

fn failed(path: &Path, error: &std::io::Error) -> Failure {
    Failure::failed(format!("{}: {error}", path.display()))
}
