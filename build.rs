//! Generates the gRPC code and the descriptor that reflection serves, with a protobuf compiler written in Rust: no `protoc` is
//! needed on the machine.

fn main() -> Result<(), Box<dyn std::error::Error>> {
    println!("cargo::rerun-if-changed=proto");
    #[cfg(feature = "service")]
    generate()?;
    Ok(())
}

// Cargo tells a build script only through the environment where its output belongs.
#[allow(clippy::disallowed_methods)]
#[cfg(feature = "service")]
fn generate() -> Result<(), Box<dyn std::error::Error>> {
    use prost::Message as _;

    let mut files = Vec::new();
    for file in std::fs::read_dir("proto/drover/v1")? {
        let path = file?.path();
        if path.extension().is_some_and(|extension| extension == "proto") {
            files.push(path);
        }
    }
    files.sort();
    let descriptors = protox::compile(files, ["proto"])?;
    let out = std::path::PathBuf::from(std::env::var("OUT_DIR")?);
    std::fs::write(out.join("drover_descriptor.bin"), descriptors.encode_to_vec())?;
    tonic_prost_build::configure()
        .bytes(".")
        .codec_path("crate::rpc::Codec")
        // `cargo doc` reads the proto comments as Markdown and doctests; they are written for people who read the proto.
        .compile_fds(descriptors)?;
    Ok(())
}
