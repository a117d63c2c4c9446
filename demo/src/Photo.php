<?php

declare(strict_types=1);

namespace Howdah\Demo;

use GdImage;
use RuntimeException;

/**
 * An uploaded picture, decoded. Only the picture that gd makes of the file is kept: everything else
 * in the file (a script, the place where it was taken) ends here.
 */
final class Photo
{
    /** More would take hundreds of megabytes to decode, however small the file is. */
    private const MOST_PIXELS = 32_000_000;
    private const KINDS = [IMAGETYPE_JPEG, IMAGETYPE_PNG, IMAGETYPE_WEBP, IMAGETYPE_GIF];
    private const JPEG_QUALITY = 84;

    private function __construct(private readonly GdImage $image)
    {
    }

    /**
     * @param array{error: int, tmp_name: string, size: int} $upload one entry of $_FILES
     * @throws RejectedPhoto with a message for the visitor
     */
    public static function fromUpload(array $upload): self
    {
        match ($upload['error']) {
            UPLOAD_ERR_OK => null,
            UPLOAD_ERR_INI_SIZE, UPLOAD_ERR_FORM_SIZE => throw RejectedPhoto::tooLarge(),
            UPLOAD_ERR_PARTIAL => throw new RejectedPhoto(
                'Only a part of the photo arrived. Please send it again.',
            ),
            default => throw new RuntimeException('upload error ' . $upload['error']),
        };
        if (!is_uploaded_file($upload['tmp_name'])) {
            throw new RejectedPhoto('That was not an uploaded file.');
        }
        if ($upload['size'] > UploadLimit::bytes()) {
            throw RejectedPhoto::tooLarge();
        }
        return self::decode($upload['tmp_name']);
    }

    /** The bytes of a JPEG file in that size. */
    public function jpeg(PhotoSize $size): string
    {
        [$width, $height] = $this->dimensions($size);
        $canvas = imagecreatetruecolor($width, $height);
        // JPEG has no transparency.
        imagefill($canvas, 0, 0, imagecolorallocate($canvas, 255, 255, 255));
        imagecopyresampled(
            $canvas,
            $this->image,
            0,
            0,
            0,
            0,
            $width,
            $height,
            imagesx($this->image),
            imagesy($this->image),
        );
        imageinterlace($canvas, true);
        $bytes = fopen('php://memory', 'w+b');
        if (!imagejpeg($canvas, $bytes, self::JPEG_QUALITY)) {
            throw new RuntimeException('gd cannot encode the photo');
        }
        rewind($bytes);
        return stream_get_contents($bytes);
    }

    /** @return array{int, int} width and height in that size; never larger than the picture is */
    public function dimensions(PhotoSize $size): array
    {
        $width = imagesx($this->image);
        $height = imagesy($this->image);
        $scale = min(1, $size->longestSide() / max($width, $height));
        return [max(1, (int) round($width * $scale)), max(1, (int) round($height * $scale))];
    }

    private static function decode(string $path): self
    {
        $facts = @getimagesize($path);
        if ($facts === false || !in_array($facts[2], self::KINDS, true)) {
            throw new RejectedPhoto(
                'That is not a photo we can read. JPEG, PNG, WebP and GIF will do.',
            );
        }
        if ($facts[0] * $facts[1] > self::MOST_PIXELS) {
            throw new RejectedPhoto(sprintf(
                'That photo has %d megapixels; up to %d will do.',
                ceil($facts[0] * $facts[1] / 1e6),
                self::MOST_PIXELS / 1e6,
            ));
        }
        $image = @imagecreatefromstring((string) file_get_contents($path));
        if ($image === false) {
            throw new RejectedPhoto('That photo is damaged. Please try another one.');
        }
        return new self(self::upright($image, $path, $facts[2]));
    }

    /** Phones store how they were held beside the picture; gd does not look at that. */
    private static function upright(GdImage $image, string $path, int $kind): GdImage
    {
        if ($kind !== IMAGETYPE_JPEG || !function_exists('exif_read_data')) {
            return $image;
        }
        $degrees = match ((@exif_read_data($path))['Orientation'] ?? 1) {
            3 => 180,
            6 => -90,
            8 => 90,
            default => 0,
        };
        return $degrees === 0 ? $image : (imagerotate($image, $degrees, 0) ?: $image);
    }
}
