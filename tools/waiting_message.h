#pragma once
/// A message of a listed queue: the recipients that still wait for it, put together from the entries of a listing.
///
/// Use:     waiting[entry.queue_id].add(entry);  …  auto who = waiting[id].among(content.envelope.recipients);
/// Pure; any thread.
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "lib/mail/envelope.h"
#include "lib/suite/ipc/queue.h"

namespace pen::tools {

struct WaitingMessage {
  ipc::queue::Place place = ipc::queue::Place::deferred;
  std::vector<std::pair<std::string, std::string>> recipients;  // that are left: address, original
  bool owes = false;                                            // its sender still needs a notice of a failure

  /// A message with many recipients has several entries, in the order of its recipients.
  void add(const ipc::queue::Entry& entry);
  /// Those of all recipients that are left, in their order; nullopt: it is not clear which.
  std::optional<std::vector<mail::Recipient>> among(const std::vector<mail::Recipient>& all) const;
};

}  // namespace pen::tools
