/* A PHP extension that attacks from the zygote. See zygote.php. */
#include <php.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdint.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

static size_t number(unsigned char *to, uint64_t value)
{
	memcpy(to, &value, 8);
	return 8;
}

static void send_with(int to, const void *bytes, size_t length, int count)
{
	union {
		char space[CMSG_SPACE(sizeof(int) * 250)];
		struct cmsghdr align;
	} control = {0};
	struct iovec vector = {(void *)bytes, length};
	struct msghdr message = {0};
	message.msg_iov = &vector;
	message.msg_iovlen = 1;
	if (count > 0) {
		struct cmsghdr *head;
		message.msg_control = control.space;
		message.msg_controllen = CMSG_SPACE(sizeof(int) * (size_t)count);
		head = CMSG_FIRSTHDR(&message);
		head->cmsg_level = SOL_SOCKET;
		head->cmsg_type = SCM_RIGHTS;
		head->cmsg_len = CMSG_LEN(sizeof(int) * (size_t)count);
		memset(CMSG_DATA(head), 0, sizeof(int) * (size_t)count); /* standard input, again and again */
	}
	sendmsg(to, &message, MSG_NOSIGNAL | MSG_DONTWAIT);
}

static void *flood(void *unused)
{
	static unsigned char large[240000];
	unsigned char message[64];
	unsigned turn;
	(void)unused;
	sleep(1); /* The zygote has reported by then. */
	memset(large, 0xff, sizeof large);
	for (turn = 0;; turn++) {
		int to = 3 + (int)(turn & 1);
		size_t length = 1;
		fcntl(to, F_SETFL, 0);
		switch (turn / 2 % 6) {
		case 0: /* A worker has started: process 1 */
			message[0] = 3;
			length += number(message + 1, turn % 4);
			length += number(message + length, 1);
			send_with(to, message, length, 0);
			break;
		case 1: /* A worker has died. */
			message[0] = 4;
			length += number(message + 1, turn % 4);
			length += number(message + length, 1);
			length += number(message + length, 9);
			send_with(to, message, length, 250);
			break;
		case 2: /* PHP has started, again. */
			message[0] = 1;
			length += number(message + 1, 4);
			memcpy(message + length, "\033[2J", 4);
			length += 4;
			length += number(message + length, 1);
			message[length++] = '\a';
			send_with(to, message, length, 1);
			break;
		case 3:
			send_with(to, large, sizeof large, 0);
			break;
		case 4: /* An early worker. */
			message[0] = 3;
			length += number(message + 1, UINT64_MAX);
			length += number(message + length, UINT64_MAX);
			send_with(to, message, length, 3);
			break;
		default:
			if (turn % 5000 > 4990)
				send_with(to, large, turn % 40, 0);
		}
		if (turn % 2000 == 0)
			usleep(1000);
	}
	return NULL;
}

static PHP_MINIT_FUNCTION(attack)
{
	pthread_t thread;
	(void)type;
	(void)module_number;
	pthread_create(&thread, NULL, flood, NULL);
	return SUCCESS;
}

static zend_module_entry attack_module_entry = {
	STANDARD_MODULE_HEADER, "attack", NULL, PHP_MINIT(attack), NULL, NULL, NULL, NULL, "1",
	STANDARD_MODULE_PROPERTIES};

ZEND_GET_MODULE(attack)
