#include "tools/sendmail_submit.h"

#include <fcntl.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <sysexits.h>
#include <unistd.h>

#include <cerrno>
#include <charconv>
#include <cstdio>
#include <cstring>
#include <set>
#include <utility>
#include <vector>

#include "lib/base/bytes.h"
#include "lib/base/file_io.h"
#include "lib/receive/submission/input.h"
#include "lib/receive/submission/recipients.h"

namespace pen::tools {
namespace {

constexpr int kNotExecuted = 127;

std::string length(std::size_t size) {
  std::byte raw[4];
  store_le(raw, static_cast<std::uint32_t>(size));
  return std::string(as_text(raw));
}

}  // namespace

void complain(std::string_view text) {
  std::fprintf(stderr, "sendmail: %.*s\n", static_cast<int>(text.size()), text.data());
}

bool lacks_its_group(const std::string& pendrop) {
  if (::geteuid() == 0) return false;
  if (::prctl(PR_GET_NO_NEW_PRIVS, 0, 0, 0, 0) == 1) return true;
  struct stat st{};
  struct statvfs fs{};
  if (::stat(pendrop.c_str(), &st) != 0 || ::statvfs(pendrop.c_str(), &fs) != 0) return false;
  return (st.st_mode & S_ISGID) == 0 || (fs.f_flag & ST_NOSUID) != 0;
}

Pendrop::~Pendrop() {
  if (pid_ > 0) (void)wait();
  if (connected_) ::close(pipe_);
}

bool Pendrop::connected() {
  sockaddr_un to{};
  if (options_.socket.empty() || options_.socket.size() >= sizeof to.sun_path) return false;
  to.sun_family = AF_UNIX;
  std::memcpy(to.sun_path, options_.socket.c_str(), options_.socket.size() + 1);
  pipe_ = ::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
  connected_ = pipe_ >= 0 && ::connect(pipe_, reinterpret_cast<const sockaddr*>(&to), sizeof to) == 0;
  if (!connected_ && pipe_ >= 0) ::close(std::exchange(pipe_, -1));
  return connected_;
}

bool Pendrop::start(const submission::Submission& mail) {
  if (connected()) return piece(encode(mail));
  int ends[2];
  if (::pipe2(ends, O_CLOEXEC) != 0) {
    complain("pipe: " + Error::from_errno(errno).message());
    return false;
  }
  std::vector<std::string> words = {"pendrop"};
  if (!options_.config_directory.empty()) words.insert(words.end(), {"-c", options_.config_directory});
  if (options_.verbose) words.emplace_back("-v");
  std::vector<char*> argv;
  for (auto& w : words) argv.push_back(w.data());
  argv.push_back(nullptr);
  pid_ = ::fork();
  if (pid_ == 0) {
    if (::dup2(ends[0], 0) != 0) ::_exit(EX_OSERR);
    ::execv(options_.program.c_str(), argv.data());
    ::_exit(kNotExecuted);
  }
  ::close(ends[0]);
  if (pid_ < 0) {
    complain("fork: " + Error::from_errno(errno).message());
    ::close(ends[1]);
    return false;
  }
  pipe_ = ends[1];
  return piece(encode(mail));
}

bool Pendrop::put(std::string_view bytes) {
  return write_all(pipe_, bytes, "pendrop").has_value();  // else it has ended: its status has the reason
}

bool Pendrop::piece(std::string_view bytes) { return put(length(bytes.size())) && put(bytes); }

bool Pendrop::content(std::string_view text) {
  while (!text.empty()) {
    const auto part = text.substr(0, submission::kMaxPiece);
    if (!piece(part)) return false;
    text.remove_prefix(part.size());
  }
  return true;
}

/// pickup's line: a code, and the queue id or why not.
int Pendrop::read_answer() {
  constexpr std::size_t kMost = 4096;
  std::string line;
  while (line.size() < kMost && !line.contains('\n')) {
    char part[512];
    const ssize_t n = ::read(pipe_, part, sizeof part);
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) break;
    line.append(part, static_cast<std::size_t>(n));
  }
  ::close(std::exchange(pipe_, -1));
  connected_ = false;
  int code = 0;
  const auto [end, error] = std::from_chars(line.data(), line.data() + line.size(), code);
  const std::size_t newline = line.find('\n');
  if (error != std::errc() || newline == std::string::npos || *end != ' ') {
    complain("pickup ended before it had the message: try again");
    return EX_TEMPFAIL;
  }
  const std::string text = line.substr(static_cast<std::size_t>(end - line.data()) + 1,
                                       newline - static_cast<std::size_t>(end - line.data()) - 1);
  if (code != EX_OK) complain(text);
  if (code == EX_OK && options_.verbose) std::printf("%s\n", text.c_str());
  return code;
}

int Pendrop::finish() {
  if (connected_) {
    put(length(0));
    return read_answer();
  }
  if (pid_ <= 0) return EX_OSERR;
  put(length(0));
  return wait();
}

int Pendrop::wait() {
  ::close(std::exchange(pipe_, -1));
  const pid_t pid = std::exchange(pid_, -1);
  int status = 0;
  while (::waitpid(pid, &status, 0) < 0) {
    if (errno != EINTR) return EX_OSERR;
  }
  if (WIFSIGNALED(status)) {
    complain("pendrop was killed by signal " + std::to_string(WTERMSIG(status)));
    return EX_TEMPFAIL;
  }
  if (WEXITSTATUS(status) == kNotExecuted) {
    complain("cannot run " + options_.program);
    return EX_UNAVAILABLE;
  }
  return WEXITSTATUS(status);
}

int submit(Pendrop& drop, submission::Submission mail, const Reading& how, int input) {
  submission::InputFilter filter({.dot_ends = how.dot_ends, .ends = how.ends});
  submission::HeaderRecipients header;
  std::string buffer(64 * 1024, '\0'), content;
  bool named = !how.header_recipients;  // the recipients are known
  const auto start = [&] {
    if (!named) {
      if (!header.fault().empty()) {
        complain(header.fault());
        return EX_DATAERR;
      }
      std::set<std::string, std::less<>> given;
      for (const auto& recipient : mail.recipients) given.insert(recipient.address);
      for (auto& address : header.take())
        if (!given.contains(address))
          mail.recipients.push_back({.address = std::move(address), .original = {}, .orcpt = {}, .notify = how.notify});
      if (mail.recipients.empty()) {
        complain("no recipient addresses found in the message header");
        return EX_USAGE;
      }
      named = true;
    }
    if (const auto fault = submission::check(mail, false); !fault.empty()) {
      complain(fault);
      return EX_DATAERR;
    }
    // If pendrop ended at once, its exit status has the reason.
    return drop.start(mail) || drop.running() ? EX_OK : EX_OSERR;
  };
  if (named) {
    if (const int status = start(); status != EX_OK) return status;
  }
  for (bool end = false; !end;) {
    const ssize_t n = ::read(input, buffer.data(), buffer.size());
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) {
      complain("standard input: " + Error::from_errno(errno).message());
      return EX_IOERR;  // pendrop has only a part of the message
    }
    const auto before = content.size();
    if (n == 0)
      filter.finish(content);
    else
      filter.feed({buffer.data(), static_cast<std::size_t>(n)}, content);
    end = n == 0 || filter.done();
    if (!named) {
      header.feed(std::string_view(content).substr(before));
      if (end) header.finish();
      if (!header.header_ended()) continue;
      if (const int status = start(); status != EX_OK) return status;
    }
    if (!drop.content(content)) break;
    content.clear();
  }
  return drop.finish();
}

}  // namespace pen::tools
