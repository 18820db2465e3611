#pragma once
/// The questions to trivial-rewrite: for the scheduler, a recipient each; and for tools that show
/// where mail would go.
///
/// State:   the requests without an answer, those to the suppression list among them, the routes that hold for a
///          whole domain (RouteCache), the recipients whose source waits for its count to be written, and how often
///          the program died over a recipient.
/// Use:     ask() carries out the scheduler's action; the program's answers and its death are
///          events. new_turn() in each settle().
/// Rules:   a request that was lost is asked again, from the second death on alone; at the third
///          its message is held.
#include <functional>
#include <map>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "qmgr/active_set.h"
#include "qmgr/rounds.h"
#include "qmgr/route_cache.h"
#include "qmgr/surroundings.h"

namespace pen::qmgr {

class RouteRequests {
 public:
  RouteRequests(const Surroundings& around, ActiveSet& active, Rounds& rounds)
      : around_(around), active_(active), rounds_(rounds) {}

  void ask(const RouteRecipient& a);
  void new_turn() { known_ = 0; }
  /// What is known of domains may be out of date.
  void forget_routes() { cache_.clear(); }

  // --- events ---
  void routed(ipc::route::Routed& answer);
  /// The suppression list has, or has not, the recipient that was asked about.
  void suppression_answer(const ipc::suppression::Answer& answer);
  /// Ports::write_counts() is done.
  void counts_written();
  /// The program died: every request up to `last_sent` without an answer is asked again, suspects alone. Later ones
  /// never reached it; the edge still holds them.
  void lost(std::uint64_t last_sent);

  /// A tool's question where a recipient goes, asked beside the scheduler's. then(nullptr): the program died. Returns
  /// the number for forget_look_up(), after which `then` is not called.
  using LookedUp = std::function<void(ipc::route::Routed*)>;
  std::uint64_t look_up(const std::string& recipient, const std::string& sender, LookedUp then,
                        const std::string& tenant = {});
  void forget_look_up(std::uint64_t request) { looked_up_.erase(request); }

 private:
  struct Asked {
    MessageNumber message = 0;
    std::uint32_t ordinal = 0;
  };
  /// It is on its way to somebody else than it was sent to (SRS).
  bool forwarded(const mail::Envelope& envelope, const mail::Recipient& recipient) const;
  /// A command may take it for an option.
  bool may_be_option(std::string_view recipient) const;
  /// The route is known: a recipient that may be on the suppression list waits for its answer.
  void take(Active& m, std::uint32_t ordinal, ipc::route::Resolved& answer, Sharing sharing);
  /// From its source it goes to the scheduler, or the recipient waits for one.
  void send(Active& m, std::uint32_t ordinal, ipc::route::Resolved& answer, Sharing sharing);
  /// There is no way for this recipient.
  void unroutable(Active& m, std::uint32_t ordinal, mail::DeliveryStatus status);
  /// The program died too often over this recipient.
  void give_up(const Asked& asked, std::uint8_t deaths);

  // A message to ten thousand of one domain must not have the loop for itself: beyond these in one
  // turn the program is asked.
  static constexpr std::size_t kKnown = 200;

  const Surroundings& around_;
  ActiveSet& active_;
  Rounds& rounds_;
  std::uint64_t next_request_ = 1;
  std::unordered_map<std::uint64_t, Asked> asked_;
  struct Standing {
    Asked of;
    ipc::route::Resolved route;
    Sharing sharing;
  };
  std::unordered_map<std::uint64_t, Standing> standings_;  // asked of the suppression list
  std::vector<Standing> uncounted_;                        // the count of their source is being written
  RouteCache cache_;
  std::size_t known_ = 0;                        // routes from the cache in this turn
  std::map<std::uint64_t, LookedUp> looked_up_;  // tools wait for these
  std::map<std::pair<MessageNumber, std::uint32_t>, std::uint8_t> deaths_;
};

}  // namespace pen::qmgr
