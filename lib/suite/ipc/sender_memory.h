#pragma once
/// Conversation "sender_memory": smtpd asks anvil what is remembered of a client and its senders
/// (check_greylist, check_sender_quota).
///
/// Limits:  come with each question, so that services may differ; anvil keeps facts and applies them.
/// Lost:    anvil answers each question at most once. A program that lost anvil repeats the questions without an
///          answer: a question that is counted twice does no harm.
/// Source:  docs/greylisting.md, docs/quotas.md.
#include <cstdint>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "lib/base/codec.h"

namespace pen::ipc::sender_memory {

inline constexpr std::string_view kName = "sender_memory";

// smtpd → anvil
/// May this client deliver from this sender to this recipient now?
struct AskGreylist {
  std::uint64_t request = 0;
  std::string client;  // its network
  std::string sender, recipient;
  std::uint32_t delay = 0, window = 0, keep = 0;  // seconds
  std::uint32_t passes = 0;                       // of a client, after which it is known; 0: never
  PEN_FIELDS(request, client, sender, recipient, delay, window, keep, passes)
};
/// A sender and its limits; 0: no limit.
struct QuotaUser {
  std::string name;  // "login:NAME" or "sender:ADDRESS"
  std::uint32_t messages_per_hour = 0, messages_per_day = 0, recipients_per_hour = 0, recipients_per_day = 0;
  PEN_FIELDS(name, messages_per_hour, messages_per_day, recipients_per_hour, recipients_per_day)
};
/// May all of them send so much more? It is counted if they may.
struct AskQuota {
  std::uint64_t request = 0;
  bool look = false;  // without counting
  std::uint32_t messages = 0, recipients = 0;
  std::vector<QuotaUser> users;
  PEN_FIELDS(request, look, messages, recipients, users)
};
// anvil → smtpd
struct Greylisted {
  std::uint64_t request = 0;
  std::uint32_t wait = 0;     // seconds until it may; 0: it may
  std::uint32_t delayed = 0;  // seconds for which this first pass was put off; 0: it was not
  PEN_FIELDS(request, wait, delayed)
};

enum class QuotaLimit : std::uint8_t {
  none,
  messages_per_hour,
  messages_per_day,
  recipients_per_hour,
  recipients_per_day
};
struct QuotaAnswer {
  std::uint64_t request = 0;
  QuotaLimit exceeded = QuotaLimit::none;
  std::uint32_t user = 0;  // the place of the user that would exceed it
  std::uint32_t wait = 0;  // seconds until that user's window is over
  PEN_FIELDS(request, exceeded, user, wait)
};

using ToAnvil = std::variant<AskGreylist, AskQuota>;
using FromAnvil = std::variant<Greylisted, QuotaAnswer>;

}  // namespace pen::ipc::sender_memory
