#include "lib/send/mailbox/worker.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <pthread.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <condition_variable>
#include <csignal>
#include <deque>
#include <mutex>

#include "lib/base/async/descriptor_message.h"
#include "lib/send/mailbox/become.h"
#include "lib/send/mailbox/connection.h"
#include "lib/send/mailbox/descriptors.h"
#include "lib/send/mailbox/groups.h"
#include "lib/send/mailbox/helper.h"
#include "lib/send/mailbox/job_stream.h"
#include "lib/send/mailbox/postman.h"
#include "lib/send/mailbox/store_content.h"
#include "lib/send/mailbox/text_file.h"
#include "lib/suite/service/table_request.h"

namespace pen::mailbox {
namespace {

constexpr std::size_t kStack = 1024 * 1024;

/// The process answers its jobs as nobody, or not at all.
void give_up_rights() {
  constexpr uid_t kNobody = 65534;
  if (::geteuid() == 0 && !become({.uid = kNobody, .gid = kNobody, .groups = {}, .name = {}})) ::_exit(77);
}

Result<void> take_role(const Policy& policy, const Result<std::optional<Identity>>& who) {
  if (!who) return fail(Error(who.error()).within("cannot take the recipient's rights"));
  if (!policy.root.empty() && (::chroot(policy.root.c_str()) != 0 || ::chdir("/") != 0))
    return fail_errno("chroot " + policy.root);
  if (*who) {
    if (auto done = become(**who); !done)
      return fail(std::move(done).error().within("cannot take the recipient's rights"));
  }
  // No other process of this user may inspect this one: it holds mail, and was forked from a process that holds
  // all users' mail.
  ::prctl(PR_SET_DUMPABLE, 0);
  ::umask(077);
  if (::chdir("/") != 0) return fail_errno("cannot change to /");
  return {};
}

bool is_one_of(int error, std::initializer_list<int> errors) {
  return std::ranges::find(errors, error) != errors.end();
}

/// The result of the search for a forward file.
struct Forward {
  std::string path, text,
      ignored;  // path empty: there is no file. ignored: why an existing file does not count
};
Result<Forward> find_forward(const std::vector<std::string>& paths) {
  for (const auto& path : paths) {
    struct stat st{};
    if (::lstat(path.c_str(), &st) != 0) {
      // These errors mean that the user has no such file.
      if (is_one_of(errno, {ENOENT, ENOTDIR, ELOOP, EACCES, ENAMETOOLONG})) continue;
      return fail_errno("cannot read " + path);
    }
    auto file = read_text_file(path, kMaxForward, Links::refuse);
    if (!file) {
      const int why = file.error().sys_errno();
      if (why == ENOENT) continue;  // removed in the meantime
      if (is_one_of(why, {ENOTDIR, ELOOP, EINVAL, EPERM, EACCES, ENXIO}))
        return Forward{path, {}, file.error().message()};
      return std::unexpected(std::move(file).error());
    }
    if (file->owner != ::geteuid() && file->owner != 0)
      return Forward{path, {}, fmt::format("{} belongs to uid {}", path, file->owner)};
    return Forward{path, std::move(file->text), {}};
  }
  return Forward{};
}

class Worker {
 public:
  Worker(int control, const Policy& policy, const Result<std::optional<Identity>>& who)
      : control_(control), policy_(policy), role_(take_role(policy, who)) {
    if (!role_) give_up_rights();
  }

  [[noreturn]] void run() {
    for (;;) {
      pollfd socket{control_, POLLIN, 0};
      const int ready = ::poll(&socket, 1, static_cast<int>(milliseconds(kIdle).count()));
      if (ready < 0 && errno == EINTR) continue;
      // Later senders get an error; jobs sent before still arrive.
      if (ready <= 0 && is_idle()) (void)::shutdown(control_, SHUT_RD);
      if (ready <= 0 && !is_idle()) continue;
      auto received = receive_descriptor(control_);
      if (!received || !received->descriptor) leave();
      if (received->bytes == kAlone)
        serve(std::move(received->descriptor));
      else
        take(std::move(received->descriptor));
    }
  }

 private:
  using Time = std::chrono::steady_clock::time_point;

  bool is_idle() {
    std::lock_guard lock(mutex_);
    return running_ == 0;
  }

  void take(Fd socket) {
    std::lock_guard lock(mutex_);
    ++running_;
    last_limit_ = std::max(last_limit_, std::chrono::steady_clock::now() + kGrace);  // time to read the job
    waiting_.push_back(std::move(socket));
    if (idle_threads_ > 0) {
      --idle_threads_;  // reserved for this job, although the thread does not run yet
      work_.notify_one();
      return;
    }
    pthread_attr_t attributes;
    (void)::pthread_attr_init(&attributes);
    (void)::pthread_attr_setstacksize(&attributes, kStack);
    (void)::pthread_attr_setdetachstate(&attributes, PTHREAD_CREATE_DETACHED);
    pthread_t thread{};
    const auto body = [](void* self) -> void* {
      static_cast<Worker*>(self)->serve_all();
      return nullptr;
    };
    if (::pthread_create(&thread, &attributes, body, this) != 0) {
      // Closing the socket tells the sender that the job was not done.
      waiting_.pop_back();
      --running_;
    }
    (void)::pthread_attr_destroy(&attributes);
  }

  void serve(Fd socket) {
    JobStream job(std::move(socket));
    auto read = job.read_job();
    if (!read) return;
    note_limit(read->limit);
    job.answer(encode(deliver(read->work, job, read->limit)));
  }

  void serve_all() {
    std::unique_lock lock(mutex_);
    for (;;) {
      work_.wait(lock, [&] { return !waiting_.empty(); });
      Fd socket = std::move(waiting_.front());
      waiting_.pop_front();
      lock.unlock();
      serve(std::move(socket));
      lock.lock();
      ++idle_threads_;
      if (--running_ == 0) done_.notify_all();
    }
  }

  void note_limit(seconds limit) {
    std::lock_guard lock(mutex_);
    last_limit_ = std::max(last_limit_, std::chrono::steady_clock::now() + limit + kGrace);
  }

  /// Finishes the present jobs first, within their time limits.
  [[noreturn]] void leave() {
    std::unique_lock lock(mutex_);
    while (running_ > 0 && std::chrono::steady_clock::now() < last_limit_) (void)done_.wait_until(lock, last_limit_);
    ::_exit(0);
  }

  Answer deliver(Work& work, JobStream& job, seconds limit) {
    if (!role_) return trouble("4.3.5", role_.error().message());
    if (const auto no = objection(policy_, work)) {
      tell_refused(fmt::format("a job for uid {}", ::geteuid()), *no);
      return trouble("4.3.5", "refused: " + *no);
    }
    Answer answer;
    if (!work.read_path.empty()) {
      auto file = read_text_file(work.read_path, work.read_limit, Links::follow);
      if (!file) return trouble("4.3.5", file.error().message());
      answer.file_found = true;
      answer.file_text = std::move(file->text);
      answer.file_owner = file->owner;
      return answer;
    }
    if (::geteuid() == 0) return trouble("4.3.5", "refusing to deliver as root");
    struct stat st{};
    if (!work.home.empty() && ::stat(work.home.c_str(), &st) != 0)
      return trouble(
          "4.3.0", fmt::format("cannot use the home directory {}: {}", work.home, Error::from_errno(errno).message()));
    auto forward = find_forward(work.forward_files);
    if (!forward) return trouble("4.3.5", forward.error().message());
    answer.file_ignored = std::move(forward->ignored);
    // An empty file counts as no file.
    if (!forward->text.empty()) {
      answer.file_found = true;
      answer.file_path = std::move(forward->path);
      answer.file_text = std::move(forward->text);
      return answer;
    }
    if (work.only_look)
      answer.status = would_do(work);
    else if (work.command)
      answer.status = run_command(*work.command, work.message, job, limit);
    else
      answer.status = store_content(work, job, [this](const auto&... what) { return groups_.store(what...); });
    return answer;
  }

  const int control_;
  const Policy& policy_;
  const Result<void> role_;
  Groups groups_;
  std::mutex mutex_;
  std::condition_variable work_, done_;
  std::deque<Fd> waiting_;
  std::size_t idle_threads_ = 0, running_ = 0;
  Time last_limit_{};
};

[[noreturn]] void lend_table(int control, const std::string& path, const OpenTable& open_table) {
  const Result<Fd> opened = open_table ? open_table(path) : Result<Fd>(fail_errno("it has no tables", EPERM));
  int error = 0;
  if (!opened) {
    error = opened.error().sys_errno();
    if (error <= 0 || error > kLargestErrno) error = EIO;
    if (error == EPERM) tell_refused("table " + path.substr(0, kMaxAccountName), opened.error().context());
  }
  // The asker may be gone, or may wait no longer.
  const std::string answer = service::encode_table_answer(error);
  (void)async::send_descriptor_message(control, answer, opened ? opened->get() : -1, MSG_DONTWAIT);
  ::_exit(0);
}

}  // namespace

void run_worker(int control, const Policy& policy, const OpenTable& open_table) {
  pollfd socket{control, POLLIN, 0};
  while (::poll(&socket, 1, static_cast<int>(milliseconds(kIdle).count())) < 0 && errno == EINTR) {
  }
  // Later senders get an error.
  if (socket.revents == 0) (void)::shutdown(control, SHUT_RD);
  auto first = receive_descriptor(control);
  if (!first || first->bytes.empty()) ::_exit(0);
  if (const auto path = service::parse_table_request(first->bytes)) lend_table(control, *path, open_table);
  const auto request = parse_request(first->bytes);
  const auto no = request ? refusal(policy, *request) : std::optional<std::string>("it is malformed");
  if (no) {
    tell_refused(request ? fmt::format("a process for uid {}", request->uid) : "a request", *no);
    ::_exit(77);
  }
  if (request->kind == Request::Kind::postman) run_postman(control, policy);
  if (request->kind == Request::Kind::connection) serve_connection(control, std::move(first->descriptor), policy);
  first->descriptor.reset();  // no other kind brings one
  Worker worker(control, policy, account_of(policy, *request));
  worker.run();
}

std::string with_length(std::string_view bytes) {
  std::string out;
  out.reserve(kLengthBytes + bytes.size());
  for (std::size_t i = 0; i < kLengthBytes; ++i) out += static_cast<char>(bytes.size() >> (8 * i) & 0xff);
  out += bytes;
  return out;
}

std::uint32_t length_of(std::string_view four) {
  std::uint32_t length = 0;
  for (std::size_t i = 0; i < kLengthBytes; ++i)
    length |= std::uint32_t{static_cast<unsigned char>(four[i])} << (8 * i);
  return length;
}

}  // namespace pen::mailbox
