#include "penapi/exposition.h"

#include <fmt/format.h>

namespace pen::api {

using metrics::Family;
using metrics::Sums;

namespace {

/// A line of help knows two escapes, a label's value three; other control characters have none, and nobody needs them.
std::string escaped(std::string_view text, bool quotes) {
  std::string out;
  for (const char c : text) {
    if (c == '\\')
      out += "\\\\";
    else if (c == '\n')
      out += "\\n";
    else if (c == '"' && quotes)
      out += "\\\"";
    else
      out += static_cast<unsigned char>(c) < 32 || c == 127 ? '?' : c;
  }
  return out;
}

/// Names of other hosts may be no UTF-8, which a reader would refuse with all the rest.
std::string ascii(std::string_view text) {
  std::string out;
  for (const char c : text) out += static_cast<unsigned char>(c) < 128 ? c : '?';
  return out;
}

std::string in_braces(const Exposition::Labels& labels) {
  std::string out;
  for (const auto& [name, value] : labels)
    out += fmt::format("{}{}=\"{}\"", out.empty() ? "{" : ",", name, escaped(ascii(value), true));
  return out.empty() ? out : out + "}";
}

std::string number(double value) { return fmt::format("{:.12g}", value); }

Exposition::Labels labels_of(const Family& f, std::size_t series) {
  Exposition::Labels out(f.labels.size());
  for (std::size_t i = f.labels.size(); i-- > 0;) {
    const auto& label = f.labels[i];
    out[i] = {label.name, std::string(label.values[series % label.values.size()])};
    series /= label.values.size();
  }
  return out;
}

}  // namespace

void Exposition::family(std::string_view name, std::string_view help, std::string_view type) {
  out_ += fmt::format("# HELP {} {}\n# TYPE {} {}\n", name, escaped(help, false), name, type);
}

void Exposition::sample(std::string_view name, const Labels& labels, std::uint64_t value) {
  out_ += fmt::format("{}{} {}\n", name, in_braces(labels), value);
}

void Exposition::sample(std::string_view name, const Labels& labels, double value) {
  out_ += fmt::format("{}{} {}\n", name, in_braces(labels), number(value));
}

void Exposition::histogram(std::string_view name, const Labels& labels, std::span<const double> bounds,
                           std::span<const std::uint64_t> counts, double sum) {
  std::uint64_t total = 0;
  const std::string bucket = std::string(name) + "_bucket";
  Labels with_bound = labels;
  with_bound.emplace_back("le", "");
  for (std::size_t i = 0; i <= bounds.size(); ++i) {
    total += counts[i];
    with_bound.back().second = i == bounds.size() ? "+Inf" : number(bounds[i]);
    sample(bucket, with_bound, total);
  }
  sample(std::string(name) + "_sum", labels, sum);
  sample(std::string(name) + "_count", labels, total);
}

std::uint64_t count_of(const Sums& sums, metrics::Id id, std::initializer_list<std::size_t> labels) {
  const Family& f = metrics::family(id);
  std::size_t at = 0, i = 0;
  for (const std::size_t label : labels) at = at * f.labels[i++].values.size() + label;
  return sums[f.first + at];
}

void write_counts(Exposition& out, const Sums& sums) {
  for (const Family& f : metrics::kFamilies) {
    const bool histogram = !f.bounds.empty();
    const char* ending = !histogram ? "_total" : f.unit == 1 ? "" : "_seconds";
    const std::string name = fmt::format("penstock_{}{}", f.name, ending);
    out.family(name, f.help, histogram ? "histogram" : "counter");
    std::vector<double> bounds;
    for (const std::uint64_t bound : f.bounds) bounds.push_back(static_cast<double>(bound) * f.unit);
    for (std::size_t series = 0; series < f.series; ++series) {
      const std::size_t first = f.first + series * f.slots_each();
      const auto counts = std::span(sums).subspan(first, f.slots_each());
      // Combinations that never came would be thousands of lines.
      bool any = f.labels.size() < 2;
      for (const std::uint64_t n : counts) any = any || n != 0;
      if (!any) continue;
      if (histogram)
        out.histogram(name, labels_of(f, series), bounds, counts.first(bounds.size() + 1),
                      static_cast<double>(counts.back()) * f.unit);
      else
        out.sample(name, labels_of(f, series), counts.front());
    }
  }
}

namespace {

void write_queue(Exposition& out, const QueueView& queue, WallTime now) {
  if (queue.looked == WallTime{}) return;
  const auto each = [&](std::string_view name, std::string_view help, auto value) {
    out.family(name, help, "gauge");
    for (std::size_t i = 0; i < kPlaces; ++i)
      out.sample(name, {{"state", std::string(ipc::queue::kPlaceNames[i])}}, value(queue.states[i]));
  };
  each("penstock_queue_messages", "Messages in the queue, by state.", [](const QueueState& s) { return s.messages; });
  each("penstock_queue_bytes", "Their content in bytes.", [](const QueueState& s) { return s.bytes; });
  each("penstock_queue_oldest_age_seconds", "Time since the oldest of them arrived; 0: there is none.",
       [&](const QueueState& s) {
         return s.messages == 0 ? 0.0 : std::max(0.0, std::chrono::duration<double>(now - s.oldest).count());
       });
  const auto age = [&](std::string_view name, std::string_view help, WallTime since) {
    out.family(name, help, "gauge");
    out.sample(name, {}, since == WallTime{} ? 0.0 : std::max(0.0, std::chrono::duration<double>(now - since).count()));
  };
  age("penstock_queue_first_try_age_seconds",
      "Time since the oldest message arrived that has not been tried to the end once; 0: there is none.",
      queue.untried);
  age("penstock_queue_overdue_seconds", "How long a message waits, at most, for another try that is due; 0: none does.",
      queue.due);
  out.family("penstock_queue_survey_age_seconds", "How long ago the queue and the destinations were gone through.",
             "gauge");
  out.sample("penstock_queue_survey_age_seconds", {},
             std::max(0.0, std::chrono::duration<double>(now - queue.looked).count()));
  const auto busiest = [&](std::string_view name, std::string_view help, std::uint64_t DestinationFigures::* value) {
    out.family(name, help, "gauge");
    for (const auto& d : queue.destinations)
      out.sample(name, {{"destination", d.shown}, {"transport", d.transport}}, d.*value);
    out.sample(name, {{"destination", "other"}, {"transport", ""}}, queue.other.*value);
  };
  busiest("penstock_destination_connections", "Connections to the busiest destinations, and to all others.",
          &DestinationFigures::connections);
  busiest("penstock_destination_jobs", "Deliveries in hand or waiting there.", &DestinationFigures::jobs);
  busiest("penstock_destination_failures", "Failures in a row there; 0: it works, as far as is known.",
          &DestinationFigures::failures);
  out.family("penstock_destination_rate_limit",
             "Messages a minute that a provider gets at most, by what the limit holds for.", "gauge");
  for (const auto& l : queue.limits)
    out.sample("penstock_destination_rate_limit", {{"group", l.group}, {"source", l.source}, {"scope", l.scope}},
               l.per_minute);
  const auto quotas = [&](std::string_view name, std::string_view help, const auto& value) {
    out.family(name, help, "gauge");
    for (const auto& q : queue.quotas)
      out.sample(name, {{"group", q.group}, {"source", q.source}, {"scope", q.scope}, {"rate", q.rate}}, value(q));
  };
  quotas("penstock_destination_quota", "Messages that a slower rate beside another one allows within its time.",
         [](const QuotaFigures& q) { return q.most; });
  quotas("penstock_destination_quota_used", "Messages that went within that time until now.",
         [](const QuotaFigures& q) { return q.used; });
  quotas("penstock_destination_quota_opens_seconds", "Until the next may go there; 0: it may now.",
         [](const QuotaFigures& q) { return q.opens; });
  static constexpr std::string_view kClasses[] = {"active", "idle",    "closed",   "unused",
                                                  "retry",  "failing", "suspended"};
  out.family("penstock_destinations", "Destinations that the scheduler knows, by state.", "gauge");
  for (std::size_t i = 0; i < std::size(kClasses); ++i)
    out.sample("penstock_destinations", {{"state", std::string(kClasses[i])}}, queue.by_class[i]);
}

}  // namespace

void write_states(Exposition& out, const Seen& seen, WallTime now) {
  out.family("penstock_up", "Whether the queue manager answers.", "gauge");
  out.sample("penstock_up", {}, std::uint64_t{seen.qmgr.empty() ? 0U : 1U});
  static constexpr std::pair<const char*, const char*> kLines[] = {
      {"active", "Messages being worked on."},
      {"active_bytes", "Memory of messages being worked on."},
      {"routing", "Recipients whose route is being looked up."},
      {"jobs", "Deliveries that the scheduler has."},
      {"jobs_in_hand", "Deliveries that programs have in hand."},
      {"connections", "Connections and delivery slots."},
      {"segments_used", "Segments of the queue log in use."},
      {"segments_free", "Segments of the queue log kept for use."},
      {"suffix_bytes", "Bytes that a restart would read of the journal."},
      {"spool_files", "Files of the spool."},
      {"spool_files_free", "Files of the spool that are free."}};
  for (const auto& [line, help] : kLines) {
    const auto at = seen.qmgr.find(line);
    if (at == seen.qmgr.end()) continue;
    const std::string name = fmt::format("penstock_qmgr_{}", line);
    out.family(name, help, "gauge");
    out.sample(name, {}, std::strtod(at->second.c_str(), nullptr));
  }
  for (const auto& [line, help] : {std::pair{"accepting", "Whether new mail is taken."},
                                   std::pair{"recovered", "Whether everything in the queue is known."}}) {
    const auto at = seen.qmgr.find(line);
    if (at == seen.qmgr.end()) continue;
    const std::string name = fmt::format("penstock_qmgr_{}", line);
    out.family(name, help, "gauge");
    out.sample(name, {}, std::uint64_t{at->second == "yes" ? 1U : 0U});
  }
  write_queue(out, *seen.queue, now);
  if (seen.sessions.classes.empty()) return;
  out.family("penstock_class_sessions", "Sessions of each session class.", "gauge");
  for (const auto& c : seen.sessions.classes) {
    out.sample("penstock_class_sessions", {{"class", c.mask}, {"direction", "incoming"}}, c.incoming);
    out.sample("penstock_class_sessions", {{"class", c.mask}, {"direction", "outgoing"}}, c.outgoing);
  }
  out.family("penstock_class_session_limit", "Its limits.", "gauge");
  for (const auto& c : seen.sessions.classes) {
    out.sample("penstock_class_session_limit", {{"class", c.mask}, {"limit", "total"}}, std::uint64_t{c.total});
    out.sample("penstock_class_session_limit", {{"class", c.mask}, {"limit", "refuse"}}, std::uint64_t{c.refuse});
  }
}

}  // namespace pen::api
