#pragma once
/// A message in the hands of a delivery agent of this host.
///
/// Use:     serve_slots() (slots.h) makes one for each job and hands it to the agent.
/// Thread:  any; nothing of it changes during the delivery.
#include <memory>
#include <string>

#include "lib/mail/envelope.h"
#include "lib/send/delivery/ending.h"
#include "lib/suite/ipc/content.h"

namespace pen::delivery {

/// Shared by everything that works on the message.
struct Incoming {
  static constexpr std::size_t kMaxHeader = 256 * 1024;

  mail::Envelope envelope;  // of the message; without recipients
  ipc::Content body;
  std::string header;                         // the first bytes of the message's header, kMaxHeader at most
  std::string nexthop;                        // of the job
  bool soft_refusals = false;                 // soft_bounce: what fails is tried again
  std::shared_ptr<const Ending> ending = {};  // of its conversation; none: it has no end
  /// Nothing more is to be done for it.
  bool over() const { return ending && ending->has_come(); }
};

}  // namespace pen::delivery
