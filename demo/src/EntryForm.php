<?php

declare(strict_types=1);

namespace Howdah\Demo;

/** The text that a visitor has typed, and the mistakes in it. */
final class EntryForm
{
    public const LONGEST_NAME = 60;
    public const LONGEST_MESSAGE = 1000;
    public const LONGEST_DESCRIPTION = 160;

    public string $name = '';
    public string $message = '';
    public string $photoDescription = '';
    public ?Photo $photo = null;

    /** @var array<string, string> field → what is wrong; 'form' is the form as a whole */
    public array $errors = [];

    /**
     * @param array<string, mixed> $post $_POST
     * @param array<string, mixed> $files $_FILES
     */
    public static function fromRequest(array $post, array $files, Session $session): self
    {
        $form = new self();
        if ($post === [] && (int) ($_SERVER['CONTENT_LENGTH'] ?? 0) > 0) {
            // PHP drops everything when a request is larger than post_max_size.
            $tooLarge = RejectedPhoto::tooLarge()->getMessage();
            $form->errors['photo'] = $tooLarge . ' Nothing was saved.';
            return $form;
        }
        $form->name = self::line($post['name'] ?? '');
        $form->message = self::text($post['message'] ?? '');
        $form->photoDescription = self::line($post['photo_description'] ?? '');
        if (!$session->isCsrfToken($post['csrf_token'] ?? '')) {
            $form->errors['form'] =
                'The form had expired. Your entry is still here: please send it again.';
        }
        $form->check('name', $form->name, self::LONGEST_NAME, 'Please tell us your name.');
        $form->check('message', $form->message, self::LONGEST_MESSAGE, 'Please write something.');
        $form->check('photo_description', $form->photoDescription, self::LONGEST_DESCRIPTION);
        $form->takePhoto($files['photo'] ?? null);
        return $form;
    }

    public function isValid(): bool
    {
        return $this->errors === [];
    }

    public function entry(): Entry
    {
        $isDescribed = $this->photo && $this->photoDescription !== '';
        $description = $isDescribed ? $this->photoDescription : null;
        return new Entry($this->name, $this->message, time(), $description);
    }

    private function check(
        string $field,
        string $value,
        int $longest,
        ?string $whenEmpty = null,
    ): void {
        if ($value === '' && $whenEmpty !== null) {
            $this->errors[$field] = $whenEmpty;
        } elseif (mb_strlen($value) > $longest) {
            $this->errors[$field] =
                sprintf('That is %d characters; up to %d will do.', mb_strlen($value), $longest);
        }
    }

    private function takePhoto(mixed $upload): void
    {
        $error = is_array($upload) ? $upload['error'] ?? null : null;
        if (!is_int($error) || $error === UPLOAD_ERR_NO_FILE) {
            return;
        }
        try {
            $this->photo = Photo::fromUpload($upload);
        } catch (RejectedPhoto $rejected) {
            $this->errors['photo'] = $rejected->getMessage();
        }
        if ($this->errors !== [] && !isset($this->errors['photo'])) {
            $this->errors['photo'] = 'Please choose the photo again: browsers do not keep it.';
        }
    }

    /** Text on one line: control characters and runs of white space become a space. */
    private static function line(mixed $value): string
    {
        return trim((string) preg_replace('/[\s\p{C}]+/u', ' ', self::utf8($value)));
    }

    /** Text with line breaks, never more than one empty line in a row. */
    private static function text(mixed $value): string
    {
        $text = str_replace(["\r\n", "\r"], "\n", self::utf8($value));
        // 200D joins the parts of an emoji.
        $text = (string) preg_replace('/[^\P{C}\n\t\x{200D}]+/u', '', $text);
        return trim((string) preg_replace('/\n{3,}/', "\n\n", $text));
    }

    private static function utf8(mixed $value): string
    {
        return is_string($value) ? mb_scrub($value, 'UTF-8') : '';
    }
}
