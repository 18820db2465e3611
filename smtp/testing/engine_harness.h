#pragma once
/// For tests and fuzzing: drives an Engine as a connection does, with jobs of its own, and keeps the results.
///
/// Use:     Harness h(settings); h.job("a@x", {"r1", "r2"}, content); h.run(peer); h.outcome(0) …
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "lib/base/random.h"
#include "lib/mail/data_form.h"
#include "smtp/engine.h"

namespace pen::smtp::testing {

struct HarnessJob {
  Job job;
  std::string content;
  std::optional<JobDone> done;
  int outcomes = 0;
  bool unstarted = false;
};

class Harness {
 public:
  explicit Harness(const Settings& settings)
      : settings_(settings), engine(settings, {"peer.example", "peer.example[192.0.2.1]"}) {}

  HarnessJob& job(std::string sender, std::vector<std::string> recipients, std::string content) {
    auto owned = std::make_unique<HarnessJob>();
    auto& j = *owned;
    j.content = std::move(content);
    j.job.job = jobs.size();
    j.job.queue_id = "Q" + std::to_string(jobs.size());
    j.job.sender = std::move(sender);
    j.job.body.size = j.content.size();
    for (std::uint32_t i = 0; auto& address : recipients) {
      ipc::delivery::JobRecipient r;
      r.ordinal = i++;
      r.recipient.address = std::move(address);
      j.job.recipients.push_back(std::move(r));
    }
    jobs.push_back(std::move(owned));
    return j;
  }
  /// Hands the engine jobs up to its window (what the scheduler does).
  void submit_some() {
    const std::size_t window = engine.ready() ? engine.window() : 1;
    while (submitted < jobs.size() && engine.jobs_in_hand() < window && !ended && !engine.ended())
      engine.submit(&jobs[submitted++]->job, now);
  }
  /// Everything the engine wants to write now, content included. cut > 0: stops after that many bytes of the next
  /// content, as a slow socket would.
  std::string output() {
    std::string out;
    while (auto send = engine.next_send(now)) {
      out += send->text;
      if (send->job == nullptr) continue;
      const auto& content = jobs[send->job->job]->content;
      if (send->form == Form::bdat) {
        engine.mark_committed();
        out += content;
      } else {
        mail::DataForm form(settings_.line_length_limit);
        std::vector<Bytes> pieces;
        form.feed(content, pieces);
        engine.mark_committed();
        form.finish(pieces);
        for (const auto p : pieces) out += as_text(p);
      }
      engine.content_written();
    }
    return out;
  }
  void input(std::string_view bytes) {
    in_ += bytes;
    std::size_t end;
    while ((end = in_.find("\r\n")) != std::string::npos) {
      engine.on_line(std::string_view(in_).substr(0, end), now);
      in_.erase(0, end + 2);
    }
    if (engine.handshake_due() && in_.empty() && shakes_hands) engine.tls_started(now);
  }
  void collect() {
    for (auto& event : engine.take_events()) {
      if (auto* done = std::get_if<JobDone>(&event)) {
        auto& j = *jobs[done->job->job];
        ++j.outcomes;
        order.push_back(done->job->job);
        j.done = std::move(*done);
      } else if (auto* opened = std::get_if<Opened>(&event)) {
        offers = opened->offers;
        was_opened = true;
      } else {
        ended = std::get<Ended>(std::move(event));
        for (const Job* job : ended->unstarted) {
          ++jobs[job->job]->outcomes;
          jobs[job->job]->unstarted = true;
        }
      }
    }
  }
  void wait(milliseconds time) {
    now += time;
    engine.on_time(now);
    collect();
  }
  void finish(End how) {
    if (ended) return;
    engine.finish(engine.ended() ? End::by_engine : how, now);
    collect();
  }
  /// Runs against a peer until either side ends. `random`: with random cuts and delays; without: everything at once.
  template <class Peer>
  void run(Peer& peer, Random* random = nullptr) {
    std::string to_peer, to_engine;
    bool moved = false;
    auto take = [&](std::string& from) {
      const auto n = random == nullptr ? from.size() : random->below(from.size() + 1);
      std::string part = from.substr(0, n);
      moved = moved || n > 0;
      from.erase(0, n);
      return part;
    };
    for (int idle = 0; idle < 50;) {
      moved = false;
      submit_some();
      if (submitted == jobs.size()) engine.request_close();
      to_peer += output();
      collect();
      if (engine.ended()) break;
      if (random == nullptr || random->chance(0.7)) peer.input(take(to_peer));
      to_engine += peer.take_output();
      if (random == nullptr || random->chance(0.7)) input(take(to_engine));
      collect();
      if (engine.ended()) break;
      if (peer.gone() && to_engine.empty()) break;
      idle = moved || !to_peer.empty() || !to_engine.empty() ? 0 : idle + 1;
    }
    if (engine.ended()) {
      peer.input(to_peer);
      finish(End::by_engine);
    } else {
      timed_out = !peer.gone();
      finish(peer.gone() ? End::closed : End::timed_out);
    }
  }

 private:
  Settings settings_;

 public:
  Engine engine;
  std::vector<std::unique_ptr<HarnessJob>> jobs;
  std::size_t submitted = 0;
  std::vector<std::uint64_t> order;
  Offers offers;
  bool was_opened = false, timed_out = false;
  bool shakes_hands = true;  // false: the handshake never ends
  std::optional<Ended> ended;
  SteadyTime now{seconds(1)};

 private:
  std::string in_;
};

}  // namespace pen::smtp::testing
