//! Compiles the protocol files with `protox`, so that no `protoc` is needed.

use std::path::PathBuf;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    println!("cargo::rerun-if-changed=undertone");
    let files = protox::compile(["undertone/v1/control.proto", "undertone/v1/worker.proto"], ["."])?;
    let out = PathBuf::from(std::env::var("OUT_DIR")?);
    std::fs::write(out.join("descriptor.bin"), protox::prost::Message::encode_to_vec(&files))?;
    tonic_prost_build::configure().compile_fds(files)?;
    Ok(())
}
