<?php
/*
 * Lets rules read the environment of the server.
 *
 * Attacker: writes .htaccess files that pass variables of the server's own environment to scripts,
 *   and that put them into header fields, variables and conditions.
 * Must not happen: a rule sees a variable that `pass_env` of its site does not name, among them the
 *   server's secrets.
 * Checked: what the rules have put into the answers.
 */
require __DIR__ . '/attack.php';

function prepare(): void
{
    $names = ['SERVER_SECRET', 'HOME', 'USER', 'LANG', 'PWD', 'NOTIFY_SOCKET', 'INVOCATION_ID'];
    $rules = 'PassEnv ' . implode(' ', $names) . "\nRewriteEngine on\n";
    foreach ($names as $name) {
        $rules .= "RewriteRule ^ - [E=RULE_$name:%{ENV:$name}]\nHeader set X-Function-$name "
            . "\"expr=%{osenv:$name}\"\n"
            . "<If \"osenv('$name') =~ /./\">\nHeader set X-If-$name seen\n</If>\nSetEnv "
                . "SET_$name \"expr=%{osenv:$name}\"\n"
            . "Header set X-Env-$name %{RULE_{$name}}e\n";
    }
    @mkdir(__DIR__ . '/rules');
    file_put_contents(__DIR__ . '/rules/.htaccess', $rules);
    file_put_contents(__DIR__ . '/rules/all.php',
        '<?php foreach ($_SERVER as $name => $value) { echo "$name=", print_r($value, true), "\n'
        . '"; }');
}

$scene = scene();
$client = stream_socket_client("tcp://$scene->address:$scene->port", $number, $text, 2);
stream_set_timeout($client, 2);
fwrite($client, "GET /rules/all.php HTTP/1.1\r\nHost: a.example\r\nConnection: close\r\n\r\n");
$answer = stream_get_contents($client, 100_000);
if (str_contains($answer, 'SCRIPT_NAME=/rules/all.php')) {
    tried('asked');
    if (preg_match('/(secret-of-supervisor|^x-(if|function)-\w+: '
        . '*[^\s-]|^(RULE_\w+|SERVER_SECRET|NOTIFY_SOCKET)=.)/mi', $answer, $part)) {
        won("read a variable of the server: $part[0]");
    }
}
