#include "tools/top_source.h"

#include <fcntl.h>
#include <fmt/format.h>

#include <algorithm>
#include <fstream>
#include <iterator>
#include <nlohmann/json.hpp>
#include <set>

#include "lib/base/text.h"
#include "lib/queue/views/story.h"
#include "lib/suite/ipc/ask_once.h"
#include "lib/suite/ipc/topology.h"
#include "lib/suite/service/arguments.h"
#include "lib/suite/service/lock.h"
#include "lib/suite/sessions/status.h"

namespace pen::tools {

using ipc::queue::Entry;
using ipc::queue::Place;
using views::Seen;

namespace {

constexpr std::size_t kToldRecipients = 20;

/// The kept few of many, by an order: the last of them is the first to go.
template <class T, class Before>
class Few {
 public:
  Few(std::size_t most, Before before) : most_(most), before_(before) {}
  void add(T one) {
    kept_.push_back(std::move(one));
    std::ranges::push_heap(kept_, before_);
    if (kept_.size() <= most_) return;
    std::ranges::pop_heap(kept_, before_);
    kept_.pop_back();
  }
  std::vector<T> take() {
    std::ranges::sort(kept_, before_);
    return std::move(kept_);
  }

 private:
  std::size_t most_;
  Before before_;
  std::vector<T> kept_;
};

std::uint64_t total(const metrics::Sums& sums, const metrics::Family& f) {
  std::uint64_t all = 0;
  for (std::size_t i = 0; i < f.series; ++i) all += sums[f.first + i * f.slots_each()];
  return all;
}

/// A counter's values by its last label: "name.value".
void add_by_last_label(const metrics::Sums& sums, const metrics::Family& f, Counts& out) {
  const auto& values = f.labels.back().values;
  for (std::size_t i = 0; i < f.series; ++i)
    out[fmt::format("{}.{}", f.name, values[i % values.size()])] += sums[f.first + i];
}

}  // namespace

TopSource::TopSource(async::Loop& loop, const config::Config& config) : loop_(loop), config_(config), surveyed_(loop) {}

std::string TopSource::path(std::string_view name) const {
  return config_.settings().queue_directory + "/" + std::string(name);
}

async::Task<Result<ipc::queue::Done>> TopSource::ask(ipc::queue::ToQmgr request, See<ipc::queue::FromQmgr> see,
                                                     seconds patience) {
  using namespace ipc::queue;
  co_return co_await (ipc::ask_once<FromQmgr, ToQmgr, Done>(
      loop_, path(ipc::kQmgrSocket), kName, std::move(request),
      {.until = {.deadline = loop_.now() + patience}, .greeted_by = loop_.now() + kGreets}, std::move(see)));
}

async::Task<Result<void>> TopSource::ask(ipc::destinations::ToQmgr request, See<ipc::destinations::FromQmgr> see) {
  using namespace ipc::destinations;
  PEN_CO_TRY(co_await (ipc::ask_once<FromQmgr, ToQmgr, Done>(
      loop_, path(ipc::kQmgrSocket), kName, std::move(request),
      {.until = {.deadline = loop_.now() + kAnswer}, .greeted_by = loop_.now() + kGreets}, std::move(see))));
  co_return Result<void>{};
}

async::Task<TopSnapshot> TopSource::look() {
  if (!under_way_ && loop_.now() >= again_) {
    under_way_ = true;
    loop_.spawn("survey", go_through(this));
  }
  TopSnapshot now;
  const auto done = co_await ask(
      ipc::queue::AskStatus{.request = 1},
      [&now](ipc::queue::FromQmgr& m) {
        auto* status = std::get_if<ipc::queue::Status>(&m);
        if (status == nullptr) return;
        for (auto& line : status->lines) {
          if (const auto value = parse_unsigned(line.value)) now.counts[line.name] = *value;
          if (line.name == "accepting") now.accepting = line.value == "yes";
        }
      },
      kAnswer);
  now.at = loop_.clock().wall_now();
  if (!done) {
    now.problem = done.error().message();
  } else {
    co_await look_at_destinations(now);
  }
  if (!config_.settings().session_classes.empty()) {
    auto sessions =
        co_await sessions::ask_status(loop_, path(ipc::kAnvilSocket), {.deadline = loop_.now() + seconds(2)});
    if (sessions) now.classes = std::move(sessions->classes);
  }
  count(now);
  now.survey = survey_;
  co_return now;
}

async::Task<void> TopSource::look_at_destinations(TopSnapshot& now) {
  const auto jobs = [](const Seen& d) { return d.entry.in_hand + d.entry.waiting; };
  const auto busier = [jobs](const Seen& a, const Seen& b) {
    return std::pair(jobs(a), a.entry.connections) > std::pair(jobs(b), b.entry.connections);
  };
  const auto slower = [](const Seen& a, const Seen& b) { return a.facts.service_time > b.facts.service_time; };
  const auto worse = [](const Seen& a, const Seen& b) { return a.facts.failures > b.facts.failures; };
  Few<Seen, decltype(busier)> busiest(kKept, busier);
  Few<Seen, decltype(slower)> slowest(kKept, slower);
  Few<Seen, decltype(worse)> worst(kKept, worse);
  const auto found =
      co_await ask(ipc::destinations::Find{.request = 1, .name = {}}, [&](ipc::destinations::FromQmgr& m) {
        auto* e = std::get_if<ipc::destinations::Entry>(&m);
        if (e == nullptr) return;
        ++now.destinations_in_all;
        Seen d = views::from_qmgr(std::move(*e));
        if (d.facts.service_time.count() > 0) slowest.add(d);
        if (d.facts.failures > 0 || !d.entry.suspended.empty()) worst.add(d);
        busiest.add(std::move(d));
      });
  if (!found) {
    now.problem = found.error().message();
    co_return;
  }
  std::set<std::string> seen;
  for (auto* few : {&now.destinations}) {
    for (auto&& list : {busiest.take(), slowest.take(), worst.take()})
      for (const Seen& d : list)
        if (seen.insert(d.entry.key).second) few->push_back(d);
  }
}

async::Task<void> TopSource::go_through(TopSource* self) {
  async::Loop& loop = self->loop_;
  const SteadyTime began = loop.now();
  const auto older = [](const TopMessage& a, const TopMessage& b) { return a.arrival < b.arrival; };
  Few<TopMessage, decltype(older)> oldest(kOldest, older);
  TopSurvey survey;
  ipc::queue::List list;
  list.request = 1;
  list.brief = true;
  const auto done = co_await self->ask(
      list,
      [&](ipc::queue::FromQmgr& m) {
        auto* e = std::get_if<Entry>(&m);
        if (e == nullptr || static_cast<std::size_t>(e->place) >= kTopPlaces) return;
        TopQueue& q = survey.places[static_cast<std::size_t>(e->place)];
        ++q.messages;
        q.bytes += e->size;
        if (q.oldest == WallTime{} || e->arrival < q.oldest) q.oldest = e->arrival;
        oldest.add({.queue_id = std::move(e->queue_id),
                    .sender = std::move(e->sender),
                    .domains = join(e->domains),
                    .place = e->place,
                    .arrival = e->arrival,
                    .next_try = e->next_try,
                    .size = e->size});
      },
      kSurvey);
  if (done && done->outcome == ipc::queue::Outcome::ok) {
    survey.looked = loop.clock().wall_now();
    survey.oldest = oldest.take();
    self->survey_ = std::move(survey);
  }
  self->again_ = loop.now() + std::max<std::chrono::nanoseconds>(kLeast, (loop.now() - began) * kShare);
  self->under_way_ = false;
  self->surveyed_.set();
}

async::Task<void> TopSource::surveyed() { (void)co_await surveyed_.wait({.deadline = loop_.now() + kSurvey}); }

Result<void> TopSource::open_pages() {
  const std::string file = service::state_directory(config_.settings()) + "/master.status";
  std::ifstream in(file);
  if (!in) return fail_errno(file);
  const auto status = nlohmann::json::parse(in, nullptr, false);
  if (status.is_discarded() || !status.is_object()) return fail_errno(file + " cannot be read", EINVAL);
  if (const int master = status.value("master", 0); master != master_) {
    pages_.clear();
    master_ = master;
  }
  for (const auto& s : status.value("services", nlohmann::json::array())) {
    const std::string label = s.value("service", "");
    const int pid = s.value("pid", 0);
    if (pid == 0 || pages_.contains(label)) continue;
    const std::string page = fmt::format("/proc/{}/fd/{}", pid, service::kMetricsFd);
    const Fd fd(::open(page.c_str(), O_RDONLY | O_CLOEXEC));
    if (!fd && errno == ENOENT) continue;  // it has just ended
    if (!fd) return fail_errno(page);
    PEN_TRY_ASSIGN(auto reader, metrics::Reader::open(fd));
    pages_.emplace(label, std::move(reader));
  }
  return {};
}

void TopSource::count(TopSnapshot& now) {
  metrics::Sums sums(metrics::kSlots);
  auto opened = open_pages();
  for (const auto& [label, page] : pages_)
    if (opened) opened = page.add_to(sums);
  if (!opened) {
    now.pages_problem = opened.error().message();
    return;
  }
  using metrics::Id;
  for (const Id id : {Id::smtpd_connections, Id::smtpd_disconnections, Id::smtpd_rejects, Id::smtpd_messages}) {
    const auto& f = metrics::family(id);
    now.counts[std::string(f.name)] = total(sums, f);
  }
  add_by_last_label(sums, metrics::family(Id::deliveries), now.counts);
  add_by_last_label(sums, metrics::family(Id::delivery_attempts), now.counts);
  const auto& sync = metrics::family(Id::queue_sync);
  std::uint64_t syncs = 0;
  for (std::size_t i = 0; i <= sync.bounds.size(); ++i) syncs += sums[sync.first + i];
  now.counts["queue_syncs"] = syncs;
  now.counts["queue_sync.sum"] = sums[sync.first + sync.bounds.size() + 1];
}

async::Task<std::string> TopSource::tell(std::string queue_id) {
  ipc::queue::List list;
  list.request = 1;
  list.queue_id = queue_id;
  Entry whole;
  const auto done = co_await ask(
      list,
      [&whole](ipc::queue::FromQmgr& m) {
        auto* e = std::get_if<Entry>(&m);
        if (e == nullptr) return;
        auto recipients = std::move(whole.recipients);
        std::move(e->recipients.begin(), e->recipients.end(), std::back_inserter(recipients));
        whole = std::move(*e);
        whole.recipients = std::move(recipients);
      },
      kSurvey);
  if (!done) co_return "no answer: " + printable(done.error().message(), 500) + "\n";
  if (done->outcome != ipc::queue::Outcome::ok)
    co_return printable(queue_id) + " is not in the queue any more" +
        (done->text.empty() ? "" : ": " + printable(done->text, 500)) + "\n";
  std::map<std::string, views::Route> routes;
  const bool goes = whole.place != Place::hold && whole.place != Place::maildrop;
  for (std::size_t i = 0; goes && i < whole.recipients.size() && i < kToldRecipients; ++i) {
    const std::string address = whole.recipients[i].address;
    if (routes.contains(address)) continue;
    views::Route route;
    const auto asked = co_await ask(ipc::destinations::Explain{1, address, whole.sender, whole.tenant, whole.signer},
                                    [&route](ipc::destinations::FromQmgr& m) {
                                      if (auto* e = std::get_if<ipc::destinations::Explained>(&m))
                                        route.explained = std::move(*e);
                                      if (auto* e = std::get_if<ipc::destinations::Entry>(&m))
                                        route.hosts.push_back(views::from_qmgr(std::move(*e)));
                                    });
    if (!asked) route.unknown = asked.error().message();
    routes.emplace(address, std::move(route));
  }
  const WallTime now = loop_.clock().wall_now();
  const auto& s = config_.settings();
  const auto story = views::tell(
      whole, routes, {.message = s.maximal_queue_lifetime, .notice = s.bounce_queue_lifetime}, now, kToldRecipients);
  co_return views::text_of(story, now);
}

}  // namespace pen::tools
