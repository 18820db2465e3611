#include "lib/send/mailbox/job_stream.h"

#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>

namespace pen::mailbox {
namespace {
constexpr std::size_t kChunk = 64 * 1024;
constexpr std::size_t kMaxJob = 16 * 1024 * 1024;  // at most: environments and words of commands
}  // namespace

/// Receives more. False: the end.
bool JobStream::fill() {
  // Not filled with zeros, so that a small message leaves most of it untouched.
  if (!buffer_) buffer_ = std::make_unique_for_overwrite<char[]>(kChunk);
  for (;;) {
    const auto n = ::recv(socket_.get(), buffer_.get(), kChunk, 0);
    if (n < 0 && errno == EINTR) continue;
    ahead_ = std::string_view(buffer_.get(), static_cast<std::size_t>(std::max<ssize_t>(n, 0)));
    return n > 0;
  }
}

std::optional<Job> JobStream::read_job() {
  std::string bytes;
  std::size_t wanted = kLengthBytes;
  while (bytes.size() < wanted) {
    if (ahead_.empty() && !fill()) return std::nullopt;
    const std::size_t part = std::min(wanted - bytes.size(), ahead_.size());
    bytes += ahead_.substr(0, part);
    ahead_.remove_prefix(part);
    if (wanted != kLengthBytes || bytes.size() < kLengthBytes) continue;
    wanted += length_of(bytes);
    if (wanted > kMaxJob) return std::nullopt;
  }
  auto job = decode<Job>(std::string_view(bytes).substr(kLengthBytes));
  if (job) left_ = job->work.message.size;
  return job;
}

Result<std::string_view> JobStream::read() {
  if (left_ == 0) return std::string_view{};
  if (ahead_.empty() && !fill()) return fail_errno("content incomplete", EPIPE);
  const auto piece = ahead_.substr(0, std::min<std::uint64_t>(left_, ahead_.size()));
  ahead_.remove_prefix(piece.size());
  left_ -= piece.size();
  return piece;
}

bool JobStream::called_off() const {
  pollfd socket{socket_.get(), 0, 0};
  return ::poll(&socket, 1, 0) > 0;
}

void JobStream::answer(std::string_view bytes) {
  const std::string all = with_length(bytes);
  std::string_view rest = all;
  while (!rest.empty()) {
    const auto n = ::send(socket_.get(), rest.data(), rest.size(), MSG_NOSIGNAL);
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) return;  // no process waits for the answer
    rest.remove_prefix(static_cast<std::size_t>(n));
  }
}

}  // namespace pen::mailbox
