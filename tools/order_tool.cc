#include "tools/order_tool.h"

#include <iostream>

#include "lib/base/text.h"
#include "lib/mail/queue_id.h"
#include "tools/progress_bar.h"
#include "tools/queue_client.h"
#include "tools/queue_listing.h"
#include "tools/queue_selection.h"

namespace pen::tools {
namespace {

using ipc::queue::Verb;

constexpr const char* kProgram = "pensuper";

/// one: what is said of a single message, as postsuper says it.
struct Words {
  const char *past, *doing, *would, *one;
};
Words words(Verb verb) {
  switch (verb) {
    case Verb::remove:
      return {"Deleted", "Deleting", "Would delete", "removed"};
    case Verb::hold:
      return {"Placed on hold", "Placing on hold", "Would place on hold", "placed on hold"};
    case Verb::release:
      return {"Released from hold", "Releasing from hold", "Would release from hold", "released from hold"};
    case Verb::requeue:
      return {"Requeued", "Requeueing", "Would requeue", "requeued"};
    case Verb::expire:
    case Verb::expire_release:
      return {"Force-expired", "Expiring", "Would expire", "expired"};
    case Verb::flush:
      return {"Flushed", "Flushing", "Would flush", "flushed"};
  }
  return {"", "", "", ""};
}

/// Adds an order. A word that is no queue id is skipped with a warning, as a line of standard input is: the words
/// beside it are of a script that took them from a list.
void add_order(std::vector<OrderTool::Order>& orders, Verb verb, const std::string& argument) {
  if (argument == "ALL") {
    orders.push_back({verb, true, false, {}});
  } else if (argument == "-") {
    orders.push_back({verb, false, true, {}});
  } else if (mail::is_queue_id(argument)) {
    if (orders.empty() || orders.back().verb != verb || orders.back().ids.empty() ||
        orders.back().ids.size() >= ipc::queue::kMaxIds)
      orders.push_back({verb, false, false, {}});
    orders.back().ids.push_back(argument);
  } else {
    std::fprintf(stderr, "%s: warning: not a queue id: %s (use ALL for every message)\n", kProgram,
                 readable(argument).c_str());
    orders.push_back({verb, false, false, {}});
  }
}

/// What is wrong with the orders together; empty: nothing.
std::string fault_of(const OrderTool::Options& o) {
  if (o.orders.empty()) return "say what to do with these messages: -d ALL deletes them";
  const bool in_maildrop = (o.filter.places & ipc::queue::bit_of(ipc::queue::Place::maildrop)) != 0;
  for (const auto& order : o.orders)
    if (in_maildrop && order.verb != Verb::remove) return "what is in maildrop can be deleted (-d) and nothing else";
  return {};
}

}  // namespace

std::expected<OrderTool::Options, service::Ending> OrderTool::read(int argc, const char* const* argv) {
  Options o;
  Selection selection;
  const auto order = [&o](Verb verb) {
    return [&o, verb](const service::Given& given) {
      add_order(o.orders, verb, given.value);
      return std::string();
    };
  };
  service::CommandLine line{
      .program = kProgram,
      .usage = {"pensuper [-nv] [-c DIR] [-d ID] [-h ID] [-H ID] [-r ID] [-e ID] [-f ID] [CHOICE ...] [QUEUE ...]"},
      .about =
          "Acts on messages in the queue of a Penstock instance. ID is a queue id, ALL, or - "
          "to read ids from standard input, one a line.",
      .options = {
          {"-d ID", "delete", order(Verb::remove)},
          {"-h ID", "put on hold", order(Verb::hold)},
          {"-H ID", "release from hold", order(Verb::release)},
          {"-r ID", "requeue: routed again, as new", order(Verb::requeue)},
          {"-e ID", "expire: tried once more at once, then returned to the sender; on hold: when released",
           order(Verb::expire)},
          {"-f ID", "expire, and release from hold", order(Verb::expire_release)},
          {"-n, --dry-run", "list the messages that would be acted on, and do nothing", service::set(o.dry_run)},
          service::directory_option(o.directory),
          {"-v", "name each message that is asked for", service::set(o.verbose)},
          {"-p, -s, -S", "change nothing, as a call without orders: there are no queue files to purge or to repair",
           service::set(o.tidy)},
          {"", "Of the messages named, only those that every CHOICE fits:"}}};
  for (auto& row : selection.rows()) line.options.push_back(std::move(row));
  line.options.push_back({"",
                          "and that are in one of the QUEUEs: incoming, active, deferred, hold (default: all "
                          "of these); or maildrop, where messages wait that were submitted and not yet taken: "
                          "-d deletes them."});
  const auto queues = line.read(argc, argv);
  if (!queues) return std::unexpected(queues.error());
  for (const std::string& queue : *queues)
    if (!selection.take_queue(queue))
      return std::unexpected(
          line.misuse("not a queue: " + readable(queue) + " (incoming, active, deferred, hold, maildrop)"));
  o.filter = selection.filter();
  // As scripts for Postfix have it, before a start: without orders, in all queues or some.
  ipc::queue::Filter chosen = o.filter;
  chosen.places = {};
  if (o.orders.empty() && chosen == ipc::queue::Filter{} && !o.dry_run) o.tidy = true;
  if (o.orders.empty() && o.tidy) return o;
  if (const std::string fault = fault_of(o); !fault.empty()) return std::unexpected(line.misuse(fault));
  return o;
}

std::vector<std::string> OrderTool::read_ids(std::istream& input) {
  std::vector<std::string> ids;
  for (std::string line; ids.size() < ipc::queue::kMaxIds && std::getline(input, line);) {
    const std::string id(trim(line));
    if (id.empty()) continue;
    if (mail::is_queue_id(id))
      ids.push_back(id);
    else
      std::fprintf(stderr, "%s: warning: not a queue id: %s\n", kProgram, readable(id).c_str());
  }
  return ids;
}

int OrderTool::run() {
  if (options_.tidy && options_.verbose)
    std::fprintf(stderr, "%s: nothing to purge or to repair: the queue has no files of single messages\n", kProgram);
  if (options_.orders.empty() && options_.directory.empty()) return EX_OK;
  const config::Config config = load_instance(kProgram, options_.directory);
  if (options_.orders.empty()) return EX_OK;
  QueueClient client(kProgram, config);
  for (const Order& order : options_.orders) carry_out(client, order);
  return status_;
}

void OrderTool::carry_out(QueueClient& client, const Order& order) {
  std::uint64_t count = 0;
  if (order.input) {
    for (auto ids = read_ids(std::cin); !ids.empty(); ids = read_ids(std::cin))
      count += ask(client, order, std::move(ids));
  } else if (order.all || !order.ids.empty()) {
    count = ask(client, order, order.ids);
  }
  std::fprintf(stderr, "%s: %s: %llu message%s\n", kProgram,
               options_.dry_run ? words(order.verb).would : words(order.verb).past,
               static_cast<unsigned long long>(count), count == 1 ? "" : "s");
}

std::uint64_t OrderTool::ask(QueueClient& client, const Order& order, std::vector<std::string> ids) {
  using ipc::queue::Outcome;
  ipc::queue::Act act;
  act.request = 1;
  act.verb = order.verb;
  act.all = order.all;
  act.queue_ids = std::move(ids);
  act.filter = options_.filter;
  act.dry_run = options_.dry_run;
  const std::vector<std::string> named = act.queue_ids;
  const std::size_t count = named.size();
  if (options_.verbose)
    for (const auto& id : act.queue_ids) std::fprintf(stderr, "%s: %s: asked for\n", kProgram, id.c_str());
  ProgressBar bar(words(order.verb).doing);
  const auto done = client.ask(act, [&bar](ipc::queue::FromQmgr& m, auto&) {
    if (const auto* p = std::get_if<ipc::queue::Progress>(&m)) {
      bar.show(p->done, p->total, p->count);
    } else if (const auto* e = std::get_if<ipc::queue::Entry>(&m)) {
      bar.clear();
      print(mailq_line(*e));
    }
  });
  bar.clear();
  if (done.outcome == Outcome::denied) die(kProgram, EX_NOPERM, done.text);
  // No error, as with postsuper: ids in a list may be a little out of date.
  if (done.outcome == Outcome::not_found && count == 1)
    std::fprintf(stderr, "%s: %s: no such message in the queue\n", kProgram, named.front().c_str());
  else if (done.outcome == Outcome::not_found && count > 1)
    std::fprintf(stderr, "%s: none of these %zu messages is in the queue\n", kProgram, count);
  // Of several of which some are gone the answer does not say which; the log has them all.
  if (done.count == count && !options_.dry_run)
    for (const auto& id : named) std::fprintf(stderr, "%s: %s: %s\n", kProgram, id.c_str(), words(order.verb).one);
  if (done.outcome == Outcome::no_space) {
    std::fprintf(stderr,
                 "%s: %s: no space in the queue's file system to write the message anew; free some and repeat\n",
                 kProgram, done.text.c_str());
    status_ = EX_OSERR;
  }
  if (done.outcome == Outcome::failed) {
    std::fprintf(stderr, "%s: failed: %s\n", kProgram, done.text.c_str());
    status_ = EX_SOFTWARE;
  }
  return done.count;
}

}  // namespace pen::tools
