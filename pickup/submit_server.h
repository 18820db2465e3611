#pragma once
/// Takes mail at the socket open/submit, for processes that cannot use the set-group-id pendrop (docs/submission.md):
/// services with NoNewPrivileges, containers.
///
/// Form:    the client sends what sendmail sends to pendrop: a u32 length (LE) and the encoded Submission, pieces of
///          content with lengths before them, a length of 0. Answer: one line, a code of sysexits.h, a blank, and the
///          queue id or why not. "0" means that the message is on stable storage in maildrop; Collector takes it from
///          there as it takes what pendrop leaves.
/// User:    the kernel's word (SO_PEERCRED). It checks what pendrop checks: which users may submit, with which sender,
///          how much. Nothing that the client says names a user. An account whose processes are programs of
///          the mail system alone submits nothing: they hand in mail as the table of who may talk to whom says.
/// Bounds:  kMost connections, kMostOfOne of one user (root as well); kIdle between two pieces, kWhole in all.
/// Use:     context.serve([…](auto accepted) { return SubmitServer::serve(server, std::move(accepted.stream)); });
/// Thread:  the loop's; file calls run on the pool.
#include <sys/types.h>

#include <functional>
#include <memory>
#include <string>
#include <unordered_map>
#include <vector>

#include "lib/base/async/handler_pool.h"
#include "lib/base/async/stream.h"
#include "lib/base/result.h"
#include "lib/receive/submission/drop_file.h"

namespace pen::pickup {

class SubmitServer {
 public:
  static constexpr std::size_t kMost = 50, kMostOfOne = 8;
  struct Options {
    std::string drop_directory;
    std::uint64_t size_limit = 0;  // message_size_limit; 0: none
    /// Why the user may not submit with this sender, "" when he may.
    std::function<async::Task<Result<std::string>>(uid_t uid, std::string sender)> refusal;
    std::vector<uid_t> programs = {};  // the accounts of the mail system's programs, where they are nobody else's
    std::function<std::string()> next_id;
    std::function<void()> taken;  // there is a new file
    seconds idle{60}, whole{3600};
  };
  SubmitServer(async::Loop& loop, async::HandlerPool& pool, Options options)
      : loop_(loop), pool_(pool), options_(std::move(options)) {}

  static async::Task<void> serve(std::shared_ptr<SubmitServer> self, async::Stream stream);

  struct Counts {
    std::uint64_t taken = 0, refused = 0;
  };
  const Counts& counts() const { return counts_; }
  std::size_t open() const { return open_; }

 private:
  class Guest;
  struct Answer {
    int code = 0;
    std::string text;
  };
  using Writer = std::shared_ptr<submission::DropWriter>;
  async::Task<Answer> take(async::Stream* stream, uid_t uid);
  async::Task<Answer> take_content(async::Stream* stream, Writer writer, SteadyTime end);
  async::Task<Result<std::string>> piece(async::Stream* stream, std::size_t most, SteadyTime end);

  async::Loop& loop_;
  async::HandlerPool& pool_;
  Options options_;
  Counts counts_;
  std::size_t open_ = 0;
  std::unordered_map<uid_t, std::size_t> of_user_;
};

}  // namespace pen::pickup
