#include "tools/explain.h"

#include <sysexits.h>

#include <algorithm>
#include <cstdio>
#include <iterator>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <utility>

#include "lib/queue/views/story.h"
#include "tools/destination_client.h"
#include "tools/history.h"
#include "tools/output.h"
#include "tools/queue_client.h"
#include "tools/written_sender.h"

namespace pen::tools {
namespace {

constexpr const char* kProgram = "penstock";
// Recipients that are shown, and asked for one by one: each may go another way.
constexpr std::size_t kTold = 20, kToldInJson = 200;

/// With all its recipients. nullopt: it is not in the queue.
std::optional<ipc::queue::Entry> find(const config::Config& config, const std::string& queue_id) {
  using ipc::queue::Entry;
  QueueClient client(kProgram, config);
  ipc::queue::List list;
  list.request = 1;
  list.queue_id = queue_id;
  Entry whole;
  const auto done = client.ask(list, [&](ipc::queue::FromQmgr& m, auto&) {
    auto* e = std::get_if<Entry>(&m);
    if (e == nullptr) return;
    auto recipients = std::move(whole.recipients);
    auto bounced = std::move(whole.bounced);
    std::move(e->recipients.begin(), e->recipients.end(), std::back_inserter(recipients));
    std::move(e->bounced.begin(), e->bounced.end(), std::back_inserter(bounced));
    whole = std::move(*e);
    whole.recipients = std::move(recipients);
    whole.bounced = std::move(bounced);
  });
  if (done.outcome == ipc::queue::Outcome::not_found) return std::nullopt;
  expect_ok(kProgram, done);
  return whole;
}

views::Route ask(DestinationClient& qmgr, const std::string& recipient, const ipc::queue::Entry& message) {
  using namespace ipc::destinations;
  views::Route route;
  const auto done =
      qmgr.ask(Explain{1, recipient, message.sender, message.tenant, message.signer}, [&route](FromQmgr& m) {
        if (auto* e = std::get_if<Explained>(&m)) route.explained = std::move(*e);
        if (auto* e = std::get_if<Entry>(&m)) route.hosts.push_back(views::from_qmgr(std::move(*e)));
      });
  if (!done)
    route.unknown = "the queue manager cannot be reached: " + qmgr.why();
  else if (done->outcome != Outcome::ok)
    route.unknown = done->text;
  return route;
}

/// The envelope of a message in the queue. nullopt: the user may not see it.
std::optional<mail::Envelope> envelope_of(const config::Config& config, const std::string& queue_id) {
  QueueClient client(kProgram, config);
  std::optional<mail::Envelope> out;
  std::vector<mail::Recipient> recipients;  // of a message with so many that they come in parts
  (void)client.ask(ipc::queue::Show{1, queue_id, {}}, [&](ipc::queue::FromQmgr& m, auto&) {
    auto* content = std::get_if<ipc::queue::Content>(&m);
    if (content == nullptr) return;
    std::ranges::move(content->envelope.recipients, std::back_inserter(recipients));
    if (content->more) return;
    out = std::move(content->envelope);
    out->recipients = std::move(recipients);
  });
  return out;
}

/// What became of a message that is not in the queue.
int tell_past(const config::Config& config, const ExplainOptions& options) {
  const std::string not_there = options.queue_id + ": no such message in the queue";
  if (config.settings().event_log_file.empty())
    die(kProgram, EX_DATAERR,
        not_there + ": the log says what became of it (penstock history does with event_log_file)");
  std::fprintf(stderr, "%s: %s: what became of it is looked for in the files of events\n", kProgram, not_there.c_str());
  return show_history(config, {.sought = {.queue_id = options.queue_id}, .json = options.json});
}

/// Adds the senders that hosts will get.
void tell_senders(views::Story& story, const config::Config& config,
                  const std::map<std::string, views::Route>& routes) {
  if (config.settings().srs_domain.empty()) return;
  WrittenSender written(config);
  const auto envelope = envelope_of(config, story.queue_id);
  if (!envelope) return;
  for (auto& one : story.recipients) {
    const auto recipient = std::ranges::find(envelope->recipients, one.address, &mail::Recipient::address);
    const auto route = routes.find(one.address);
    if (recipient == envelope->recipients.end() || route == routes.end()) continue;
    one.sender = written.of(*envelope, *recipient, route->second.explained.transport);
  }
  if (!written.problem().empty())
    std::fprintf(stderr, "%s: rewritten senders are not known: %s\n", kProgram, written.problem().c_str());
}

}  // namespace

int explain_message(const config::Config& config, const ExplainOptions& options) {
  const auto found = find(config, options.queue_id);
  if (!found) return tell_past(config, options);
  const ipc::queue::Entry& message = *found;
  const std::size_t most = options.json ? kToldInJson : kTold;
  std::map<std::string, views::Route> routes;
  DestinationClient qmgr(kProgram, config);
  const bool goes = message.place != ipc::queue::Place::hold && message.place != ipc::queue::Place::maildrop;
  for (std::size_t i = 0; goes && i < message.recipients.size() && i < most; ++i) {
    const std::string& address = message.recipients[i].address;
    if (!routes.contains(address)) routes.emplace(address, ask(qmgr, address, message));
  }
  const WallTime now = system_clock().wall_now();
  const auto& s = config.settings();
  views::Story story =
      views::tell(message, routes, {.message = s.maximal_queue_lifetime, .notice = s.bounce_queue_lifetime}, now, most);
  tell_senders(story, config, routes);
  print(options.json ? views::text_of(views::to_json(story)) : views::text_of(story, now));
  return EX_OK;
}

}  // namespace pen::tools
