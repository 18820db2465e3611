#pragma once
/// What all connections to penapi share, and how one is served.
///
/// Use:     Server server(loop, config, std::move(options));
///          context.serve([&](auto accepted) { return server.serve(std::move(accepted.stream)); }, limit);
/// Trust:   a connection to an inet address that is not loopback is encrypted and needs a token for all but the health
///          routes. Requests to inet addresses must name this host (http.h, is_own_host).
/// Bounds:  a request has penapi_timeout to come, its answer as long to be taken; a header and a body have the sizes of
///          http.h, and mail those of submissions.h; at most kQuestions requests at a time have qmgr answer
///          something, of which kListings have it go through its queue; others wait.
/// Thread:  the loop's.
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "lib/base/async/stream.h"
#include "lib/base/async/sync.h"
#include "lib/base/metrics/page.h"
#include "lib/config/config.h"
#include "lib/net/tls/context.h"
#include "lib/suite/ipc/destinations.h"
#include "lib/suite/ipc/queue.h"
#include "penapi/disks.h"
#include "penapi/event_tail.h"
#include "penapi/recorder.h"
#include "penapi/routes.h"
#include "penapi/submissions.h"
#include "penapi/survey.h"
#include "penapi/tokens.h"

namespace pen::api {

class Server {
 public:
  struct Options {
    Tokens tokens;
    std::shared_ptr<const tls::Context> tls;  // nullptr: no inet address but loopback
    std::vector<metrics::Reader> pages;
    Fd board;  // of master
    async::Cancel* draining = nullptr;
  };
  Server(async::Loop& loop, const config::Config& config, Options options);
  Server(const Server&) = delete;
  Server& operator=(const Server&) = delete;

  async::Task<void> serve(async::Stream stream);

  static constexpr seconds kPatience{60};
  /// For the greeting of qmgr, which costs it nothing: one that is silent for so long hangs.
  static constexpr seconds kGreets{3};
  static constexpr std::size_t kListings = 4, kQuestions = 8;

  /// Asks qmgr and calls see() for each answer before Done; false from see() is enough: nullopt is returned then.
  /// Errors: ETIMEDOUT, qmgr does not greet, or others ask it all the time; timed_out, its answer took longer than
  /// `patience`; as connect_channel().
  template <class Message>
  using See = std::function<bool(Message&)>;
  async::Task<Result<std::optional<ipc::queue::Done>>> ask(ipc::queue::ToQmgr request, See<ipc::queue::FromQmgr> see,
                                                           seconds patience = kPatience);
  async::Task<Result<std::optional<ipc::destinations::Done>>> ask(ipc::destinations::ToQmgr request,
                                                                  See<ipc::destinations::FromQmgr> see);

  async::Loop& loop;
  const config::Config& config;
  async::Semaphore listings;
  Survey survey;
  Disks disks;
  /// What all programs have counted. Errors: a page is of another version.
  Result<metrics::Sums> counted() const;
  const Fd& board() const { return options_.board; }
  /// Of the status page; nullptr: it is off.
  const Recorder* history() const { return recorder_.get(); }
  const EventTail* events() const { return events_.get(); }
  async::Cancel* draining() const { return options_.draining; }
  std::string path(std::string_view name) const;

 private:
  enum class Place : std::uint8_t { unix, loopback, network };
  async::Task<bool> serve_request(async::Stream& stream, Place place, bool first);
  /// Reads a request, but for a body that is mail.
  async::Task<std::optional<Refusal>> read_request(async::Stream& stream, Place place, bool first_of_all,
                                                   RequestHead& head, bool& quiet_end);
  async::Task<bool> hand_in(async::Stream& stream, const RequestHead& head, Place place);
  async::Task<Response> answer(const Request& request, Place place, std::string peer, bool& streams);
  async::Task<bool> stream_figures(async::Stream& stream);
  void send_events(async::Stream& stream, std::uint64_t& seen);
  async::Task<bool> write(async::Stream& stream, const Response& response, bool keep_alive, bool with_body);

  /// Waits for its turn. A question about qmgr's state costs it nothing, and has none.
  template <class From, class To, class Done>
  async::Task<Result<std::optional<Done>>> question(std::string_view conversation, To request, See<From> see,
                                                    seconds patience, std::uint32_t least_revision);

  Options options_;
  async::Semaphore questions_;
  std::unique_ptr<Recorder> recorder_;
  std::unique_ptr<EventTail> events_;
  std::unique_ptr<Submissions> submissions_;  // nullptr: no mail is taken
  std::size_t streams_ = 0;
};

}  // namespace pen::api
