//! Pictures to upload, and a look at pictures that come back.

use std::io::Cursor;

use image::{ImageFormat, Rgb, RgbImage};

/// A picture of this size, in a file of this format.
pub(crate) fn draw(width: u32, height: u32, format: ImageFormat) -> Vec<u8> {
    let picture = RgbImage::from_fn(width, height, |x, y| {
        // Not one colour, which would look right in any size and from any offset.
        Rgb([
            (x * 255 / width) as u8,
            (y * 255 / height) as u8,
            ((x / 16 + y / 16) % 2 * 255) as u8,
        ])
    });
    let mut file = Cursor::new(Vec::new());
    picture.write_to(&mut file, format).unwrap();
    file.into_inner()
}

/// The width and height of the picture in `file`, once all of it was decoded.
pub(crate) fn size(file: &[u8]) -> Result<(u32, u32), String> {
    let picture = image::load_from_memory(file).map_err(|error| error.to_string())?;
    Ok((picture.width(), picture.height()))
}
