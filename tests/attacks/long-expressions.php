<?php
/*
 * Lets the front evaluate expressions whose values are long.
 *
 * Attacker: makes a variable of 63 KB by rewrite rules, and copies it thousands of times: by the
 *   captures and the variables of expressions in RewriteCond, If, Require and SetEnvIfExpr, by
 *   SetEnvIf, and by functions. Others are in a group's file of megabytes.
 * Must not happen: site B waits for the evaluation, or the front takes memory for the values.
 * Checked: site B's answers, and their time; the front's memory.
 */
require __DIR__ . '/attack.php';

function prepare(): void
{
    $long = "RewriteEngine On\nRewriteRule ^ - [E=A:" . str_repeat('x', 7_900) . "]\n"
        . 'RewriteRule ^ - [E=A:' . str_repeat('%{ENV:A}', 8) . "]\n";
    $captures = str_repeat('$1', 3_900);
    $taken = "%{reqenv:A} =~ /(.*)/ && '$captures' == 'x'";
    $named = "-n '" . str_repeat('%{reqenv:A}', 700) . "'";
    $field = 'SetEnvIf Cookie "(.*)" A=$0$0$0$0$0$0$0$0' . "\n";
    $set = 'SetEnvIf A "^.*$" B=' . str_repeat('$0', 4_000) . "\n";
    $query = "%{QUERY_STRING} =~ /(.*)/ && '$captures' == 'x'";
    $folders = [
        'captures' => $long . str_repeat("RewriteCond expr \"$taken\"\nRewriteRule ^ - [E=B:1]\n",
            23),
        'names' => $long . str_repeat("RewriteCond expr \"$named\"\nRewriteRule ^ - [E=B:1]\n", 23),
        'set' => $field . str_repeat($set, 20),
        'exprs' => $field . str_repeat("SetEnvIfExpr \"$named\" B\n", 20),
        'copies' => $field . str_repeat("SetEnvIfExpr true B\n", 5_000),
        'if' => str_repeat("<If \"$query\">\nSetEnv A b\n</If>\n", 20),
        'require' => $field . str_repeat("Require expr \"$named\"\n", 20),
        'groups' => "AuthType Basic\nAuthName x\nAuthUserFile " . __DIR__ . "/long-groups/.htpw\n"
            . 'AuthGroupFile ' . __DIR__ . "/long-groups/.htgr\nRequire group zz\n",
    ];
    foreach ($folders as $name => $rules) {
        @mkdir(__DIR__ . "/long-$name");
        file_put_contents(__DIR__ . "/long-$name/.htaccess", $rules);
        file_put_contents(__DIR__ . "/long-$name/x.txt", 'x');
    }
    file_put_contents(__DIR__ . '/long-groups/.htpw', "u:{SHA}UWuXg/ylF+7L0dBk2i0WUxCxl1k=\n");
    $members = 'g: ' . str_repeat('a ', 4_000) . "\n";
    file_put_contents(__DIR__ . '/long-groups/.htgr', str_repeat($members, 349));
}

$scene = scene();
$names = ['captures', 'names', 'set', 'exprs', 'copies', 'if', 'require', 'groups'];
$rest = 'Host: a.example' . "\r\nCookie: " . str_repeat('c', 7_000) . "\r\nAuthorization: Basic "
    . base64_encode('u:p') . "\r\nConnection: close\r\n\r\n";
for ($until = microtime(true) + 0.8, $turn = 0; microtime(true) < $until; $turn++) {
    $client = @stream_socket_client("tcp://$scene->address:$scene->port", $number, $text, 0.5);
    if ($client) {
        stream_set_timeout($client, 1);
        $name = $names[$turn % count($names)];
        $query = $turn . str_repeat('q', 7_000);
        fwrite($client, "GET /long-$name/x.txt?$query HTTP/1.1\r\n$rest");
        fread($client, 1000);
        tried('asked');
    }
}
