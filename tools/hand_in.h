#pragma once
/// Hands whole messages to the queue manager, as a tool: the running one, or one that is started for this while the
/// mail system is down (offline_qmgr.h).
///
/// Use:     std::vector<HandedIn> messages;  …
///          const auto answers = hand_in("penstock", config, messages);   // one for each
/// Rules:   ok means: on stable storage. A message with an envelope on hold is on hold at the end; while the mail
///          system is down others wait for the next start.
/// Ends the program (EX_UNAVAILABLE) if no queue manager can be reached. One that goes away answers try_later for the
/// rest: whether it has them is not known.
/// Memory:  the content of messages that are not larger than queue_inline_limit; of larger ones a piece.
/// Rights:  root and mail_owner.
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "lib/config/config.h"
#include "lib/mail/envelope.h"
#include "lib/suite/ipc/enqueue.h"

namespace pen::tools {

struct HandedIn {
  mail::Envelope envelope;
  std::uint64_t most = 0;  // bytes of content at most
  /// Writes the content in stored form, and completes the envelope (body, message_id). Called once.
  using Write = std::function<void(std::string_view)>;
  std::function<Result<void>(mail::Envelope& envelope, const Write& write)> produce;
};
struct HandInAnswer {
  ipc::enqueue::Outcome outcome = ipc::enqueue::Outcome::try_later;
  std::string text;  // why not
};

std::vector<HandInAnswer> hand_in(const std::string& program, const config::Config& config,
                                  std::vector<HandedIn>& messages);

}  // namespace pen::tools
