#pragma once
/// A message that is being worked on: its recipients that want a route, and its jobs.
///
/// What most messages have one of (a job that waits in one cluster, then on one connection) lies within the message
/// (own, first_inline.h), next to what is used with it.
///
/// Owned:    by Model::messages.
/// Changed:  made and ended by scheduler.cc; unrouted, joinable and forming by routing.cc; source, party by sources.h;
///           tenant by tenants.h.
#include <cstdint>
#include <optional>

#include "qmgr/scheduler/first_inline.h"
#include "qmgr/scheduler/job.h"
#include "qmgr/scheduler/list.h"
#include "qmgr/scheduler/ordinals.h"
#include "qmgr/scheduler/party.h"
#include "qmgr/scheduler/scheduler.h"

namespace pen::qmgr::scheduler {

struct Sender;
struct Tenant;

struct Message {
  MessageNumber number = 0;
  std::uint64_t slot = 0;  // in Model::messages
  bool withdrawn = false;
  bool isolated = false;      // every job of it runs alone
  bool flushed = false;       // defer_transports does not hold it
  bool one_domain = false;    // a host did not take several of its domains in one transaction
  std::uint32_t routing = 0;  // look-ups under way
  std::uint32_t job_count = 0;
  Unrouted unrouted;
  Node<Message> in_unrouted{this};  // in Party::unrouted
  List<Job> jobs;
  FirstInline<void, Job*> joinable;  // jobs that can take more recipients, by join_key()
  List<Job> forming;
  Tenant* tenant = nullptr;  // nullptr: there are no tenants
  Urgency urgency = Urgency::normal;
  Source* source = nullptr;
  Sender* sender = nullptr;  // nullptr: nothing is shaped
  Sender* signer = nullptr;  // another domain that signs it; nullptr: none is known
  Party* party = nullptr;
  std::optional<Party> own;
};

}  // namespace pen::qmgr::scheduler
