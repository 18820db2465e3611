#include "lib/send/mailbox/postman.h"

#include <fmt/format.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>

#include "lib/send/mailbox/confine.h"
#include "lib/send/mailbox/descriptors.h"
#include "lib/send/mailbox/helper.h"
#include "lib/send/mailbox/job_stream.h"
#include "lib/send/mailbox/store_content.h"
#include "lib/send/mailbox/worker.h"

namespace pen::mailbox {
namespace {

/// Waits for the next job or the end of the socket.
void wait_for_job(int socket, int token) {
  for (;;) {
    pollfd job{socket, POLLIN, 0};
    const int ready = ::poll(&job, 1, static_cast<int>(milliseconds(kIdle).count()));
    if (ready > 0) return;
    eventfd_t nobody_else = 0;
    if (ready == 0 && ::eventfd_read(token, &nobody_else) == 0) ::_exit(0);
    if (ready < 0 && errno != EINTR) ::_exit(71);
  }
}

Answer deliver(const Policy& policy, const Work& work, JobStream& job) {
  if (!work.become || !is_within(policy.round, *work.become))
    return trouble("4.3.5", "refusing to deliver as an account of the system");
  if (const auto no = objection(policy, work)) {
    tell_refused("a job for a postman", *no);
    return trouble("4.3.5", "refused: " + *no);
  }
  act_as(*work.become);
  Answer answer;
  if (!work.only_look) {
    answer.status = store_content(work, job, [](const auto&... what) { return store(what...); });
    return answer;
  }
  // The content is not needed, but the next job comes behind it.
  for (;;) {
    const auto piece = job.read();
    if (!piece) return trouble("4.3.0", piece.error().message());
    if (piece->empty()) break;
  }
  answer.status = would_do(work);
  return answer;
}

}  // namespace

void run_postman(int control, const Policy& policy) {
  auto socket = receive_descriptor(control);
  auto token = receive_descriptor(control);
  if (!socket || !socket->descriptor || !token || !token->descriptor) ::_exit(0);
  (void)::close(control);
  ::umask(077);
  const Result<void> confined =
      ::chdir("/") == 0 ? confine(policy.round) : Result<void>(fail_errno("cannot change to /"));
  const int fd = socket->descriptor.get();
  JobStream stream(std::move(socket->descriptor));
  do {
    wait_for_job(fd, token->descriptor.get());
    const auto job = stream.read_job();
    if (!job) ::_exit(0);
    Answer answer;
    if (confined) {
      answer = deliver(policy, job->work, stream);
    } else {
      answer = trouble("4.3.5", confined.error().message());
      answer.unfit = true;
    }
    stream.answer(encode(answer));
    // Content left unread must not be taken for the beginning of the next job.
  } while (confined && stream.whole() && !stream.has_read_ahead());
  ::_exit(0);
}

}  // namespace pen::mailbox
