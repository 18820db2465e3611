/// pendrop: puts a submitted message where pickup finds it. Manual: man/pendrop.1. It is installed setgid
/// $setgid_group: all it gets from its caller comes from a stranger.
#include <fcntl.h>
#include <fmt/format.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sysexits.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <memory>
#include <optional>
#include <string_view>
#include <utility>

#include "lib/base/bytes.h"
#include "lib/base/random.h"
#include "lib/base/text.h"
#include "lib/config/trusted.h"
#include "lib/mail/queue_id.h"
#include "lib/receive/submission/drop_file.h"
#include "lib/receive/submission/rights.h"
#include "lib/receive/submission/wake.h"
#include "lib/suite/service/command_line.h"
#include "pickup/from_settings.h"
#include "pickup/postdrop.h"

namespace {

using namespace pen;

// Longer than anybody takes to write a message, and a limit for how long a lock is held.
constexpr unsigned kLifetime = 18000;

// The file to remove if a signal ends the process. It is not changed while the handler may run.
std::array<char, 4096> half_file{};  // NOLINT: for a signal handler
volatile std::sig_atomic_t half_file_there = 0;

/// Ends the process and removes an incomplete message.
[[noreturn]] void die(int code, const std::string& text) {
  if (half_file_there != 0) ::unlink(half_file.data());
  std::fprintf(stderr, "pendrop: %s\n", text.c_str());
  std::exit(service::own_status(code));
}

void on_signal(int) {
  if (half_file_there != 0) ::unlink(half_file.data());
  ::_exit(EX_TEMPFAIL);
}

class SignalsBlocked {
 public:
  SignalsBlocked() {
    sigset_t all;
    ::sigfillset(&all);
    ::sigprocmask(SIG_BLOCK, &all, &before_);
  }
  ~SignalsBlocked() { ::sigprocmask(SIG_SETMASK, &before_, nullptr); }
  SignalsBlocked(const SignalsBlocked&) = delete;
  SignalsBlocked& operator=(const SignalsBlocked&) = delete;

 private:
  sigset_t before_{};
};

/// Resets descriptors, signals, umask and environment: only standard input, output and error are the caller's.
void shut_out_the_caller() {
  for (int fd = 0; fd <= 2; ++fd) {
    if (::fcntl(fd, F_GETFD) < 0 && ::open("/dev/null", fd == 0 ? O_RDONLY : O_WRONLY) != fd) ::_exit(EX_OSERR);
  }
  ::close_range(3, ~0U, 0);
  ::umask(022);
  sigset_t none;
  ::sigemptyset(&none);
  ::sigprocmask(SIG_SETMASK, &none, nullptr);
  for (const int signo : {SIGPIPE, SIGXFSZ, SIGUSR1, SIGUSR2, SIGTSTP, SIGTTIN, SIGTTOU}) std::signal(signo, SIG_IGN);
  struct sigaction action{};
  action.sa_handler = on_signal;
  ::sigfillset(&action.sa_mask);
  // Also signals that the caller ignores: with SIGTERM ignored, only SIGKILL would be left. As in Postfix, SIGHUP
  // stays ignored if it was (nohup).
  for (const int signo : {SIGINT, SIGQUIT, SIGTERM, SIGALRM, SIGXCPU, SIGVTALRM, SIGPROF})
    ::sigaction(signo, &action, nullptr);
  struct sigaction hup{};
  ::sigaction(SIGHUP, nullptr, &hup);
  if (hup.sa_handler != SIG_IGN) ::sigaction(SIGHUP, &action, nullptr);
  ::alarm(kLifetime);
}

void keep_environment(const std::vector<std::string>& wanted) {
  std::vector<std::pair<std::string, std::string>> kept;
  for (const std::string& item : wanted) {
    const auto equals = item.find('=');
    if (equals != std::string::npos)
      kept.emplace_back(item.substr(0, equals), item.substr(equals + 1));
    else if (const char* value = ::getenv(item.c_str()))
      kept.emplace_back(item, value);
  }
  ::clearenv();
  for (const auto& [name, value] : kept) ::setenv(name.c_str(), value.c_str(), 1);
}

config::Config load(const std::string& option) {
  const bool more_than_caller = ::getegid() != ::getgid() || ::geteuid() != ::getuid();
  const std::string directory = config::config_directory(option);
  // A stranger must choose neither where this program writes nor which rules apply.
  auto config =
      more_than_caller && ::getuid() != 0 ? config::load_trusted(directory) : config::load(directory, {}, false);
  if (!config) {
    const bool refused = config.error().is(config::TrustError::not_trusted);
    const bool early = config.error().is(config::TrustError::no_record);
    die(refused ? EX_NOPERM : early ? EX_UNAVAILABLE : EX_CONFIG, config.error().message());
  }
  return *std::move(config);
}

submission::Rights open_rights(const config::Settings& s) {
  auto rights = submission::Rights::open(pickup::rights_of(s));
  if (!rights) die(EX_TEMPFAIL, rights.error().message());
  return *std::move(rights);
}

/// Ends the process if the answer is that the caller may not, or that nobody knows now.
void require(const Result<std::string>& refusal) {
  if (!refusal) die(EX_TEMPFAIL, refusal.error().message());
  if (!refusal->empty()) die(EX_NOPERM, *refusal);
}

/// Reads exactly `size` bytes; false: the input ended before.
bool read_input(char* to, std::size_t size) {
  while (size > 0) {
    const ssize_t n = ::read(0, to, size);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) die(EX_IOERR, "standard input: " + Error::from_errno(errno).message());
    if (n == 0) return false;
    to += n;
    size -= static_cast<std::size_t>(n);
  }
  return true;
}

/// Reads a piece with its length in front. `most` bounds it.
std::string read_piece(std::size_t most) {
  std::array<std::byte, 4> raw{};
  constexpr const char* kShort = "the message on standard input is not whole";
  if (!read_input(reinterpret_cast<char*>(raw.data()), raw.size())) die(EX_DATAERR, kShort);
  const std::size_t size = load_le<std::uint32_t>(raw.data());
  if (size > most) die(EX_DATAERR, "the input is not what sendmail writes");
  std::string text(size, '\0');
  if (!read_input(text.data(), size)) die(EX_DATAERR, kShort);
  return text;
}

[[noreturn]] void die_writing(const Error& error, const std::string& directory, const config::Settings& s) {
  if (error.is_errno(EACCES) || error.is_errno(EPERM)) {
    die(EX_NOPERM, fmt::format("cannot write to {}: pendrop must be installed setgid {} (chgrp {} and chmod 2755)",
                               directory, s.setgid_group, s.setgid_group));
  }
  if (error.is_errno(ENOENT)) die(EX_UNAVAILABLE, directory + " does not exist: start the mail system once");
  die(EX_TEMPFAIL, "message not taken: " + error.message());
}

/// Begins the file, which a signal removes from here on.
std::unique_ptr<submission::DropWriter> begin(const config::Settings& s, submission::Submission submission,
                                              const std::function<std::string()>& next_id) {
  submission.arrival = system_clock().wall_now();
  submission.submitter = 0;  // the file's owner is
  const std::string directory = s.queue_directory + "/maildrop";
  const SignalsBlocked blocked;
  auto created = submission::DropWriter::create(directory, std::move(submission), next_id);
  if (!created) die_writing(created.error(), directory, s);
  auto writer = *std::move(created);
  const std::string& path = writer->path();
  if (path.size() >= half_file.size()) {
    writer.reset();
    die(EX_CONFIG, "queue_directory: the name is too long");
  }
  std::memcpy(half_file.data(), path.c_str(), path.size() + 1);
  half_file_there = 1;
  return writer;
}

void finish(const config::Settings& s, submission::DropWriter& writer) {
  const SignalsBlocked blocked;
  if (auto done = writer.finish(); !done) die_writing(done.error(), s.queue_directory + "/maildrop", s);
  half_file_there = 0;
  submission::wake_pickup(s.queue_directory);
}

int submit(const config::Settings& s, const submission::Rights& rights, bool verbose) {
  auto submission = submission::decode_submission(read_piece(submission::kMaxEnvelope), false);
  if (!submission) die(EX_DATAERR, submission.error().message());
  require(rights.refuses_sender(::getuid(), submission->sender));
  mail::QueueIdGenerator ids(system_clock(), Random(secure_random_u64()));
  const auto writer = begin(s, *std::move(submission), [&ids] { return ids.next(); });
  std::array<std::byte, 4> raw{};
  std::string piece;
  for (;;) {
    if (!read_input(reinterpret_cast<char*>(raw.data()), raw.size()))
      die(EX_DATAERR, "the message on standard input is not whole");
    const std::size_t size = load_le<std::uint32_t>(raw.data());
    if (size == 0) break;
    if (size > submission::kMaxPiece) die(EX_DATAERR, "the input is not what sendmail writes");
    piece.resize(size);
    if (!read_input(piece.data(), size)) die(EX_DATAERR, "the message on standard input is not whole");
    const auto limit = static_cast<std::uint64_t>(s.message_size_limit);
    if (limit != 0 && writer->content_size() + size > limit)
      die(EX_UNAVAILABLE, fmt::format("message too large: message_size_limit is {} bytes", limit));
    if (auto done = writer->append(piece); !done) die_writing(done.error(), s.queue_directory + "/maildrop", s);
  }
  finish(s, *writer);
  if (verbose) std::printf("%s\n", writer->queue_id().c_str());
  return std::fflush(stdout) == 0 ? EX_OK : EX_IOERR;
}

void answer(const std::string& text) {
  if (std::fwrite(text.data(), 1, text.size(), stdout) != text.size() || std::fflush(stdout) != 0)
    die(EX_IOERR, "standard output: " + Error::from_errno(errno).message());
}

/// Reads all of standard input; nullopt: it is larger than that.
std::optional<std::string> read_all(std::size_t most) {
  std::string all;
  constexpr std::size_t kPiece = 256 * 1024;
  for (;;) {
    const std::size_t before = all.size();
    all.resize(before + kPiece);
    const ssize_t n = ::read(0, all.data() + before, kPiece);
    all.resize(before + static_cast<std::size_t>(std::max<ssize_t>(n, 0)));
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) die(EX_IOERR, "standard input: " + Error::from_errno(errno).message());
    if (n == 0) return all;
    if (all.size() > most) return std::nullopt;
  }
}

/// As postdrop of Postfix, for programs that write to it what Postfix's own sendmail writes. The recipients may stand
/// behind the content, so that the whole of it is in memory first.
int submit_as_postdrop(const config::Settings& s, const submission::Rights& rights) {
  mail::QueueIdGenerator ids(system_clock(), Random(secure_random_u64()));
  const std::string id = ids.next();
  answer(pickup::postdrop_greeting(id));
  using enum pickup::PostdropStatus;
  const auto limit = static_cast<std::uint64_t>(s.message_size_limit);
  // A record has at least two bytes for a line, of which the content counts one.
  const auto input =
      read_all(limit == 0 ? std::size_t{1} << 30 : static_cast<std::size_t>(2 * limit) + submission::kMaxEnvelope);
  auto message = input ? pickup::read_postdrop(*input, system_clock().wall_now()) : pickup::PostdropMessage{};
  if (!message) die(EX_DATAERR, "the message on standard input: " + message.error().message());
  if (!input || (limit != 0 && message->content.size() > limit)) {
    answer(pickup::postdrop_end(too_large));
    die(EX_UNAVAILABLE, fmt::format("message too large: message_size_limit is {} bytes", limit));
  }
  require(rights.refuses_sender(::getuid(), message->submission.sender));
  // The client has the id already.
  const auto writer = begin(s, std::move(message->submission), [&id] { return id; });
  if (auto done = writer->append(message->content); !done)
    die_writing(done.error(), s.queue_directory + "/maildrop", s);
  finish(s, *writer);
  answer(pickup::postdrop_end(ok));
  return EX_OK;
}

bool called_postdrop(const char* path) {
  const std::string_view name = path;
  return name.substr(name.rfind('/') + 1) == "postdrop";
}

}  // namespace

int main(int argc, char** argv) {
  const bool as_postdrop = argc > 0 && called_postdrop(argv[0]);
  shut_out_the_caller();
  keep_environment({"MAIL_CONFIG", "MAIL_DEBUG", "MAIL_LOGTAG", "TZ", "LANG=C"});
  std::string directory;
  bool verbose = false;
  const service::CommandLine line{
      .program = "pendrop",
      .usage = {"pendrop [-c DIR] [-rv]"},
      .about =
          "Takes a message from sendmail (see sendmail(1)) on standard input and leaves it in "
          "the maildrop directory, whether the mail system runs or not. Not for people: the "
          "input has a form of its own. Called postdrop, it takes what Postfix's sendmail writes.",
      .options = {service::directory_option(directory),
                  // As Postfix's sendmail calls postdrop
                  {"-r", "accepted, and changes nothing", service::accepted()},
                  {"-v", "print the queue id (not as postdrop)", service::set(verbose)}}};
  const auto words = line.read(argc, argv);
  if (!words) return words.error().print();
  if (!words->empty()) return line.incomplete().print();
  const config::Config config = load(directory);
  keep_environment(config.settings().import_environment);
  const submission::Rights rights = open_rights(config.settings());
  require(rights.refuses_user(::getuid()));
  if (as_postdrop) return submit_as_postdrop(config.settings(), rights);
  return submit(config.settings(), rights, verbose);
}
