#pragma once
/// One job's socket as the worker sees it: the job, then its content, then the answer. Blocking.
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "lib/base/fd.h"
#include "lib/base/result.h"
#include "lib/mailbox/work.h"

namespace pen::mailbox {

class JobStream {
 public:
  explicit JobStream(Fd socket) : socket_(std::move(socket)) {}
  /// First. nullopt: the sender has gone, or what came is none.
  std::optional<Job> read_job();
  /// The next piece of the content, valid until the next call; empty: all of it has come. Errors: EPIPE for an end
  /// before that.
  Result<std::string_view> read();
  /// read() would not wait.
  bool has_read_ahead() const { return !ahead_.empty(); }
  bool whole() const { return left_ == 0; }
  /// The sender has closed the socket: nobody wants the answer.
  bool called_off() const;
  /// Whether poll() with no events tells the same.
  int fd() const { return socket_.get(); }
  void answer(std::string_view bytes);

 private:
  bool fill();
  Fd socket_;
  std::unique_ptr<char[]> buffer_;
  std::string_view ahead_;  // of the buffer: received, and not read yet
  std::uint64_t left_ = 0;  // of the content
};

}  // namespace pen::mailbox
