#pragma once
/// One job's socket from the worker's side: first the job, then its content, then the answer. Blocks.
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "lib/base/fd.h"
#include "lib/base/result.h"
#include "lib/send/mailbox/work.h"

namespace pen::mailbox {

class JobStream {
 public:
  explicit JobStream(Fd socket) : socket_(std::move(socket)) {}
  /// Must be the first call. nullopt: the sender is gone, or its message is malformed.
  std::optional<Job> read_job();
  /// The next piece of the content, valid until the next call; empty: the content is complete. Errors: EPIPE for an
  /// earlier end.
  Result<std::string_view> read();
  /// Whether read() would return without waiting.
  bool has_read_ahead() const { return !ahead_.empty(); }
  bool whole() const { return left_ == 0; }
  /// Whether the sender has closed the socket: nobody wants the answer.
  bool called_off() const;
  /// The descriptor on which poll() without events reports the same.
  int fd() const { return socket_.get(); }
  void answer(std::string_view bytes);

 private:
  bool fill();
  Fd socket_;
  std::unique_ptr<char[]> buffer_;
  std::string_view ahead_;  // in the buffer: received and not read yet
  std::uint64_t left_ = 0;  // bytes of content still to come
};

}  // namespace pen::mailbox
