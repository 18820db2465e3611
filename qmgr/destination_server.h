#pragma once
/// The conversation "destinations": pendest looks at destinations, suspends, resumes and forgets them.
///
/// Rights:  looking for everyone; orders for root, ourselves and mail_owner (trusted).
/// An order acts at once in the scheduler and is answered when destdb has it on disk.
#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "lib/base/async/sync.h"
#include "lib/queue/destdb/destdb.h"
#include "lib/suite/ipc/channel.h"
#include "lib/suite/ipc/destinations.h"
#include "lib/suite/sessions/classes.h"
#include "lib/suite/sessions/status.h"
#include "qmgr/guests.h"
#include "qmgr/manager.h"
#include "qmgr/shared_destinations.h"

namespace pen::qmgr {

class DestinationServer {
 public:
  /// write: brings what changed in destdb to disk.
  using Write = std::function<async::Task<Result<void>>()>;
  using Limits = std::function<TransportLimits(std::string_view)>;
  /// session_classes (nullptr: there are none), and the socket of anvil, which counts them.
  struct SessionClasses {
    std::shared_ptr<const sessions::Classes> classes;
    std::string anvil;
  };
  /// shared: what other hosts share (nullptr: nothing is shared).
  DestinationServer(async::Loop& loop, Manager& manager, destdb::DestDb& destinations, SharedDestinations* shared,
                    Limits limits, SessionClasses session_classes, Write write);
  /// Serves one tool until it goes, or asks nothing for kToolIdle; the server must outlive it. guest: nullptr for
  /// root and the mail system. commands: whether it may give orders.
  async::Task<void> serve(ipc::Opening opening, Guests::Guest* guest, bool commands);

 private:
  using Channel = ipc::Channel<ipc::destinations::ToQmgr, ipc::destinations::FromQmgr>;
  void show_troubled(Channel& channel, const ipc::destinations::Find& m);
  async::Task<void> handle(Channel& channel, ipc::destinations::Find m);
  async::Task<void> handle(Channel& channel, ipc::destinations::Order m, bool trusted, unsigned uid);
  async::Task<void> handle(Channel& channel, ipc::destinations::Explain m);
  async::Task<void> handle(Channel& channel, ipc::destinations::FindSources m);

  /// Outcome ok: there is nothing against the order. name: of the destination; nullopt: its name is not valid.
  ipc::destinations::Done refusal(const ipc::destinations::Order& m, const std::optional<std::string>& name,
                                  bool trusted) const;
  /// Returns how many destinations it changed. rate: of Verb::rate.
  std::uint64_t obey(const ipc::destinations::Order& m, const std::string& name, const Rates& rates);

  /// The server that answers, as tools see it.
  ipc::destinations::Backend backend(std::uint64_t request) const;
  ipc::destinations::Entry entry(std::uint64_t request, const DestinationState& s) const;
  /// The classes of these hosts, each once, with what anvil counts.
  async::Task<std::vector<ipc::destinations::ClassSeen>> classes_of(const Explanation& e);
  /// What anvil was asked, and answered; no answer: it did not come in time.
  struct Counts {
    explicit Counts(async::Loop& loop) : answered(loop) {}
    async::Event answered;
    std::optional<Result<ipc::sessions::Status>> answer;
  };
  /// Tools that ask while a question is under way share its answer: one connection to anvil, however many tools look.
  async::Task<std::shared_ptr<const Counts>> ask_counts();

  async::Loop& loop_;
  Manager& manager_;
  destdb::DestDb& destinations_;
  SharedDestinations* shared_;
  Limits limits_;
  SessionClasses session_classes_;
  Write write_;
  std::weak_ptr<Counts> asked_;  // of the tools that ask
};

}  // namespace pen::qmgr
