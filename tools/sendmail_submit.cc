#include "tools/sendmail_submit.h"

#include <fcntl.h>
#include <sys/wait.h>
#include <sysexits.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <set>
#include <utility>
#include <vector>

#include "lib/base/bytes.h"
#include "lib/submission/input.h"
#include "lib/submission/recipients.h"

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

Pendrop::~Pendrop() {
  if (pid_ > 0) (void)wait();
}

bool Pendrop::start(const submission::Submission& mail) {
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
  while (!bytes.empty()) {
    const ssize_t n = ::write(pipe_, bytes.data(), bytes.size());
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return false;  // pendrop has ended: its status has the reason
    bytes.remove_prefix(static_cast<std::size_t>(n));
  }
  return true;
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

int Pendrop::finish() {
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
  submission::InputFilter filter({.dot_ends = how.dot_ends});
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
