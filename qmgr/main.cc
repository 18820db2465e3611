/// qmgr: the queue manager. See man/qmgr.8.
#include <signal.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sysexits.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <set>

#include "lib/base/log.h"
#include "lib/base/random.h"
#include "lib/base/text.h"
#include "lib/config/process_count.h"
#include "lib/config/values.h"
#include "lib/mail/error_class.h"
#include "lib/net/redis/server.h"
#include "lib/queue/queue_log/posix_storage.h"
#include "lib/queue/queue_log/version_check.h"
#include "lib/queue/shaping/rules_file.h"
#include "lib/suite/confine/apply.h"
#include "lib/suite/service/service.h"
#include "qmgr/deferral_rule.h"
#include "qmgr/delivery_limits.h"
#include "qmgr/egress.h"
#include "qmgr/guarded_storage.h"
#include "qmgr/layout_mark.h"
#include "qmgr/program.h"

namespace {

using namespace pen;

/// What the scheduler does for smtp or lmtp, by the settings of the transport's service.
void add_client_limits(const config::Config& c, const config::Service* service, qmgr::TransportLimits& limits) {
  if (service == nullptr || (service->command != "smtp" && service->command != "lmtp")) return;
  std::vector<config::Override> own;
  for (const auto& o : service->overrides) own.push_back({o.name, o.value});
  const auto add = [&](const config::Settings& s) {
    const bool lmtp = service->command == "lmtp";
    limits.sessions = static_cast<std::uint32_t>(s.client(lmtp).mx_session_limit);
    limits.combine_domains = !lmtp && s.smtp_combine_domains;
  };
  if (own.empty())
    add(c.settings());
  else
    add(c.with(own).settings());
}

/// A part of the active messages: percent of them, at least one.
std::size_t share_of(const qmgr::ManagerOptions& manager, std::int64_t percent) {
  return std::max<std::size_t>(1, manager.active_messages * static_cast<std::size_t>(percent) / 100);
}

void add_lives(const config::Settings& s, qmgr::ManagerOptions& o) {
  o.active_messages = static_cast<std::size_t>(s.qmgr_message_active_limit);
  o.inline_limit = static_cast<std::size_t>(s.queue_inline_limit);
  o.backoff_min = std::chrono::ceil<seconds>(s.minimal_backoff_time);
  o.backoff_max = std::chrono::ceil<seconds>(s.maximal_backoff_time);
  o.lifetime = std::chrono::ceil<seconds>(s.maximal_queue_lifetime);
  o.bounce_lifetime = std::chrono::ceil<seconds>(s.bounce_queue_lifetime);
  o.delay_warning = std::chrono::ceil<seconds>(s.delay_warning_time);
  o.confirm_delay_cleared = s.confirm_delay_cleared;
}

void add_notices(const config::Settings& s, qmgr::ManagerOptions& o) {
  using Rewrites = qmgr::ManagerOptions::Rewrites;
  o.soft_bounce = s.soft_bounce;
  if (!s.srs_domain.empty())
    o.rewrites = s.srs_forward == config::SrsForward::always ? Rewrites::all : Rewrites::forwarded;
  o.verp_bounces = !s.disable_verp_bounces;
  // With unknown words bounce reports nothing to the postmaster, and logs that.
  o.double_bounces =
      mail::parse_error_classes(s.notify_classes).value_or(mail::ErrorClasses()).has(mail::ErrorClass::double_bounce);
  o.double_bounce_sender = s.double_bounce_sender + "@" + s.myhostname;  // as bounce has it
}

/// What master.cf says of transports.
void add_transports(const config::Config& c, qmgr::ProgramOptions& o) {
  for (const config::Service& service : c.master()) {
    if (service.type != config::ServiceType::inet &&
        std::ranges::any_of(service.overrides, [](const auto& own) { return own.name == "soft_bounce"; }))
      o.manager.transport_soft_bounce[service.name] = c.with(service).settings().soft_bounce;
    if (const unsigned n = config::process_count(c, service, config::processors());
        n > 1 && service.type == config::ServiceType::unix_stream)
      o.delivery_processes[service.name] = n;
  }
  if (c.settings().suppression_list) {
    std::set<std::string, std::less<>> asked;  // services of the SMTP client
    for (const config::Service& service : c.master())
      if (service.type != config::ServiceType::inet && service.command == "smtp") asked.insert(service.name);
    o.manager.suppression = [asked = std::move(asked)](std::string_view transport) {
      return asked.contains(transport);
    };
  }
  o.manager.default_filter_nexthop = c.settings().default_filter_nexthop;
  for (const ipc::Carrier& carrier : ipc::all_carriers()) {
    const std::string program(carrier.program);
    o.manager.filters.emplace(program, config::filters_named(c, program));
    o.manager.transports.emplace(program, config::transports_named(c, program));
  }
}

void add_scheduling(const config::Settings& s, qmgr::ProgramOptions& o) {
  o.scheduler.fairness.max_message_concurrency = static_cast<std::uint32_t>(s.max_message_concurrency);
  o.scheduler.fairness.scale_max_concurrency = static_cast<std::uint32_t>(s.scale_max_concurrency);
  o.scheduler.routing_workers = ipc::route::kMaxUnderWay;
  o.scheduler.backlog_threshold = static_cast<std::uint32_t>(s.connection_backlog_threshold);
  o.scheduler.least_gain = milliseconds(s.connection_least_gain);
  o.scheduler.backoff_min = std::max(o.manager.backoff_min, seconds(1));
  o.scheduler.backoff_max = std::max(o.manager.backoff_max, seconds(1));
  if (s.active_share_limit < 100) o.scheduler.share_limit = share_of(o.manager, s.active_share_limit);
  o.scheduler.share_time = o.manager.backoff_min;
  o.scheduler.tenants = o.manager.tenants = !s.tenant_identity.empty();
  if (o.manager.tenants && s.tenant_active_share < 100)
    o.manager.tenant_messages = share_of(o.manager, s.tenant_active_share);
  o.manager.priorities = !s.message_priority.empty();
  o.scheduler.urgency_ratio = static_cast<std::uint32_t>(s.message_priority_ratio);
}

qmgr::TransportLimits limits_of(const config::Config& c, std::string_view name) {
  const auto t = c.transport(name);
  qmgr::TransportLimits limits;
  limits.destination_concurrency = static_cast<std::uint32_t>(t.destination_concurrency_limit);
  limits.destination_recipients = static_cast<std::uint32_t>(t.destination_recipient_limit);
  limits.initial_concurrency = static_cast<std::uint32_t>(t.initial_destination_concurrency);
  limits.rate_delay = t.destination_rate_delay;
  limits.workers = static_cast<std::uint32_t>(c.settings().default_process_limit);
  const auto* service = c.find_service(name, config::ServiceType::unix_stream);
  if (service != nullptr && service->process_limit) {
    limits.workers = static_cast<std::uint32_t>(*service->process_limit);
  }
  const auto delay = c.lookup_transport(name, "transport_rate_delay");
  // Text that names no rate was refused with the rest of main.cf.
  limits.rate_limit =
      shaping::parse_rates(c.lookup_transport(name, "destination_rate_limit").value_or("")).value_or(shaping::Rates{});
  limits.transport_rate_delay = config::parse_time(delay.value_or(""), 's').value_or(milliseconds(0));
  if (limits.transport_rate_delay.count() > 0) limits.workers = 1;  // further ones would only wait
  add_client_limits(c, service, limits);
  limits.max_age = c.settings().connection_max_age;
  const auto& deferred = c.settings().defer_transports;
  limits.deferred = std::find(deferred.begin(), deferred.end(), name) != deferred.end();
  return limits;
}

qmgr::ProgramOptions options_of(service::Context& c) {
  const config::Settings& s = c.settings();
  qmgr::ProgramOptions o;
  add_lives(s, o.manager);
  add_notices(s, o.manager);
  add_transports(c.config(), o);
  add_scheduling(s, o);
  o.manager.allow_minus = s.allow_min_user;
  o.manager.verification_limit = static_cast<std::uint32_t>(s.address_verify_concurrency_limit);
  o.verify_service = s.address_verify_service_name;
  o.limits = [&c](std::string_view name) { return limits_of(c.config(), name); };
  o.path = [&c](std::string_view name) { return c.queue_path(name); };
  o.mail_owner = c.owner().uid;
  if (c.owners().apart()) o.orders_group = c.owners().queue.gid;
  o.seed = secure_random_u64();
  o.drain_time = s.stop_drain_time;
  return o;
}

/// How long mail may have to wait for its time: the longest that main.cf or a service of master.cf allows.
seconds longest_release(const config::Config& config) {
  const auto limit = [](const config::Settings& s) { return std::chrono::ceil<seconds>(s.future_release_limit); };
  seconds longest = limit(config.settings());
  for (const config::Service& service : config.master())
    if (std::ranges::any_of(service.overrides, [](const auto& own) { return own.name == "future_release_limit"; }))
      longest = std::max(longest, limit(config.with(service).settings()));
  return longest;
}

/// What takes the rights with which the process was started.
struct Prepared {
  shaping::Rules shaping_rules;  // their files belong to root, as the programs do
  Result<std::shared_ptr<qmgr::MaildropKeeper>> keeper = nullptr;
  /// destdb_backend = redis: with the password, from a file that may be mail_owner's.
  Result<redis::ClientOptions> redis = redis::ClientOptions{};
  /// egress_sources_file, which has passwords of proxies.
  Result<std::string> sources = std::string();
};
Prepared& prepared() {
  static Prepared instance;
  return instance;
}

/// What the keeper has left of root's rights: those of mail_owner, in maildrop alone.
Result<void> become_keeper(const config::Config& config, const service::Owners& owners) {
  confine::Confinement own(confine::make_plan(confine::row_of("maildrop"), config, confine::real_surroundings()));
  own.shed_bounding_set();
  PEN_TRY(service::drop_privileges(config.settings(), owners, confine::Account::mail));
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);  // a second net below the end of the socket
  ::prctl(PR_SET_NAME, "maildrop");    // for ps
  own.close();
  own.filter_calls(-1);  // a refused call is reported to no other process; qmgr sees the end of this one
  return {};
}

shaping::Rules shaping_rules(const config::Settings& s) {
  auto rules = shaping::read_usable_files(s.shaping_rules_files, [](const std::string& why) {
    log::error("shaping_rules_files: {}: nothing of this file counts", why);
  });
  // Where nothing holds for a provider, hosts are not told apart by providers.
  if (s.shaping == config::Shaping::no && s.delivery_limit_maps.empty() && !rules.limits()) return {};
  return rules;
}

void read_private(const config::Settings& s) {
  Prepared& p = prepared();
  p.shaping_rules = shaping_rules(s);
  if (s.destdb_backend == config::DestdbBackend::redis) p.redis = redis::client_options(s);
  p.sources = egress::read_sources_file(s);
}

void prepare(const config::Config& config) {
  const config::Settings& s = config.settings();
  Prepared& p = prepared();
  read_private(s);
  const auto owners = service::owners(s);
  if (!owners || !owners->apart()) return;  // the code that needs the accounts next reports an error
  p.keeper =
      qmgr::MaildropKeeper::start(s.queue_directory + "/maildrop", [&] { return become_keeper(config, *owners); });
}

/// destdb_backend = redis.
Result<qmgr::SharedDestinations::Options> cluster_of(const config::Settings& s, const map::OpenOptions& tables) {
  qmgr::SharedDestinations::Options o;
  PEN_TRY_ASSIGN(o.client, std::move(prepared().redis));
  o.client.seed = secure_random_u64();
  o.prefix = s.destdb_redis_prefix;
  // A process that is started again is another one: what it held before is closed, and runs out.
  o.instance = printable(s.myhostname, 100) + "/" + fmt::format("{:016x}", secure_random_u64());
  o.lease = s.destdb_lease_time;
  PEN_TRY_ASSIGN(o.unshared,
                 map::MatchList::open(map::MatchList::Kind::network, join(s.destdb_unshared_networks, ", "),
                                      {.parent_domains = false, .open = tables.of("destdb_unshared_networks")}));
  if (o.unshared.blocking())
    return fail(map::MapError::bad_spec,
                "destdb_unshared_networks: this type of table may wait for others, which the queue manager cannot");
  return o;
}

/// The session class of a destination: by the name of the MX host, or by its address.
decltype(qmgr::Options::session_class) class_finder(std::shared_ptr<const sessions::Classes> classes) {
  return [classes](std::string_view host, std::string_view address) -> std::optional<qmgr::Options::SessionClass> {
    const auto found = classes->find(host, address);
    if (!found) return std::nullopt;
    const bool by_name = classes->find({}, address) != found;
    return qmgr::Options::SessionClass{*found, by_name ? classes->list()[*found].mask : std::string()};
  };
}

/// What receivers bear: what is learned and what is set. nullptr: nothing is limited.
Result<std::shared_ptr<const qmgr::ShapingOptions>> shaping_options(const service::Context& c,
                                                                    const map::OpenOptions& tables) {
  const config::Settings& s = c.settings();
  auto o = std::make_shared<qmgr::ShapingOptions>();
  using Mode = qmgr::ShapingOptions::Mode;
  o->mode = s.shaping == config::Shaping::yes       ? Mode::yes
            : s.shaping == config::Shaping::observe ? Mode::observe
                                                    : Mode::no;
  o->rules = prepared().shaping_rules;
  o->pace.pause = std::chrono::ceil<seconds>(s.shaping_pause_time);
  o->pace.increase = std::chrono::ceil<seconds>(s.shaping_increase_interval);
  o->pace.forget = std::chrono::ceil<seconds>(s.shaping_forget_time);
  const auto minimum = shaping::parse_rate(s.shaping_minimum_rate);
  if (!minimum)
    return fail(config::ConfigError::bad_value,
                "shaping_minimum_rate: " + printable(s.shaping_minimum_rate) + " is not a rate: N/s, N/m, N/h or N/d");
  o->pace.minimum = *minimum;
  PEN_TRY_ASSIGN(o->limit, qmgr::delivery_limits(join(s.delivery_limit_maps, ", "), tables));
  bool rates = !s.default_destination_rate_limit.empty();
  for (const auto& service : c.config().master())
    rates = rates || !c.config().lookup_transport(service.name, "destination_rate_limit").value_or("").empty();
  if (o->mode == Mode::no && !o->limit && !rates && !o->rules.limits()) return nullptr;
  return o;
}

/// Names the provider that a route leads to, as the scheduler finds it.
std::function<std::string(const ipc::route::Resolved&)> providers(std::shared_ptr<const qmgr::ShapingOptions> shaping) {
  if (!shaping) return {};
  return [shaping = std::move(shaping)](const ipc::route::Resolved& answer) -> std::string {
    std::vector<shaping::Host> hosts;
    for (const auto& level : answer.levels)
      for (const auto& d : level.destinations) hosts.push_back({d.host, d.address});
    const auto* const provider = hosts.empty() ? nullptr : shaping->rules.provider_of(hosts);
    return provider == nullptr ? std::string() : provider->name;
  };
}

/// What a delivery depends on besides the queue: session classes, deferrals by rule, the cluster; and which users may
/// ask for what.
Result<void> add_delivery_options(service::Context& c, qmgr::ProgramOptions& program_options) {
  const config::Settings& s = c.settings();
  auto classes = sessions::Classes::parse(s.session_classes);
  if (!classes) return fail(config::ConfigError::bad_value, "session_classes: " + classes.error());
  if (!classes->empty()) {
    program_options.classes = std::make_shared<const sessions::Classes>(*std::move(classes));
    program_options.scheduler.session_class = class_finder(program_options.classes);
  }
  map::OpenOptions tables;
  tables.default_type = s.default_database_type;
  PEN_TRY_ASSIGN(program_options.scheduler.deferral_rule,
                 qmgr::deferral_rule(join(s.defer_destinations, ", "), tables));
  PEN_TRY_ASSIGN(program_options.scheduler.shaping, shaping_options(c, tables));
  PEN_TRY_ASSIGN(auto rights, qmgr::Rights::open(s.authorized_mailq_users, s.authorized_flush_users, tables));
  program_options.rights = std::make_shared<const qmgr::Rights>(std::move(rights));
  const auto [sources, faults] = egress::read_setup(s, prepared().sources, tables);
  // What is misspelt must not send from another address.
  if (!faults.empty()) return fail(config::ConfigError::bad_value, faults.front());
  if (sources->in_use()) {
    program_options.manager.egress = std::make_shared<qmgr::Egress>(qmgr::Egress::Options{
        .setup = sources,
        // By LMTP mail goes to mailboxes.
        .sends =
            [&c](std::string_view transport) {
              const auto* service = c.config().find_service(transport, config::ServiceType::unix_stream);
              return service != nullptr && service->command == "smtp";
            },
        .provider_of = providers(program_options.scheduler.shaping)});
  }
  if (s.destdb_backend == config::DestdbBackend::redis) {
    PEN_TRY_ASSIGN(program_options.cluster, cluster_of(s, tables));
  }
  if (!program_options.scheduler.tenants) return {};
  PEN_TRY_ASSIGN(program_options.tenant_weights,
                 qmgr::TenantWeights::open(c.loop(), join(s.tenant_weight_maps), tables));
  if (const auto weights = program_options.tenant_weights)
    program_options.scheduler.tenant_weight = [weights](std::string_view tenant) { return weights->of(tenant); };
  return {};
}

Result<void> look(service::Context& c) {
  read_private(c.settings());
  auto program_options = options_of(c);
  return add_delivery_options(c, program_options);
}

/// A destination database that remembers nothing, for a process that delivers nothing.
class NoDestinations final : public destdb::File {
 public:
  Result<destdb::Contents> load() override { return destdb::Contents{}; }
  Result<void> write(const std::vector<destdb::Change>&) override { return {}; }
};

/// The word of the command line with which a tool starts us while the mail system is down (tools/offline_qmgr.h).
constexpr std::string_view kOrdersOnly = "orders-only";

/// A tool may still be ending, or work on the queue while the mail system is down: for short work we wait here, for
/// more master starts us again and again.
constexpr seconds kQueueLock{10};

/// Connections to public/qmgr: a quarter of the descriptors at most. The queue log, the spool and the programs that
/// deliver need theirs.
std::size_t connection_bound() {
  constexpr std::size_t kMost = 4096, kLeast = 64;
  rlimit limit{};
  if (::getrlimit(RLIMIT_NOFILE, &limit) != 0) return kMost;
  return std::clamp<std::size_t>(limit.rlim_cur / 4, kLeast, kMost);
}

/// What is newer than the usual payload of a message is noted beside the queue, for versions that do not know it.
void note_layouts(const std::string& directory, qmgr::ProgramOptions& program_options) {
  const auto mark = std::make_shared<qmgr::LayoutMark>(directory);
  const auto told = [](const Result<void>& done) {
    if (!done) log::warning("an older version could not be warned of this queue: {}", done.error().message());
  };
  program_options.manager.note_layout = [mark, told](std::uint8_t layout) { told(mark->note(layout)); };
  if (mark->layout() != 0) program_options.found_empty = [mark, told] { told(mark->forget()); };
}

/// Says what can be done about a directory of the queue that cannot be used.
void advise(const std::string& directory, const Error& why) {
  if (qmgr::advise_on_disk(directory, why)) return;
  log::error(
      "{} cannot be used, for the reason in the next line. Nothing in it was changed. Its files "
      "belong to queue_owner with mode 0600; qmgr starts by itself when the reason is gone. "
      "penqueue --log shows what is in the queue's files, without qmgr",
      directory);
}

/// Lives until the process ends.
Result<queue_log::Storage*> open_storage(service::Context& c) {
  const std::string& directory = c.settings().queue_log_directory;
  auto storage = queue_log::PosixStorage::open(directory, kQueueLock);
  if (!storage && storage.error().is_errno(EWOULDBLOCK)) {
    return fail(
        std::move(storage).error().within("a tool that works on the queue while the mail system "
                                          "is down, or an older queue manager, has not ended yet"));
  }
  if (!storage) {
    advise(directory, storage.error());
    return fail(std::move(storage).error());
  }
  queue_log::Storage* kept = storage->release();
  for (Fd& page : c.take_pages()) {  // master has a lease on the queue
    PEN_TRY_ASSIGN(service::LeasePage lease, service::LeasePage::open(std::move(page)));
    kept = new qmgr::GuardedStorage(std::unique_ptr<queue_log::Storage>(kept), std::move(lease));
  }
  return kept;
}

Result<std::unique_ptr<queue_log::QueueLog>> open_log(service::Context& c, queue_log::Storage& storage) {
  static Random ids(secure_random_u64());
  const config::Settings& s = c.settings();
  queue_log::Options options;
  options.segment_size = static_cast<std::uint32_t>(s.queue_log_segment_size);
  options.intervals = queue_log::retry_ladder(std::chrono::ceil<seconds>(s.minimal_backoff_time),
                                              std::chrono::ceil<seconds>(s.maximal_backoff_time));
  if (const seconds longest = longest_release(c.config()); longest.count() > 0)
    options.intervals = queue_log::with_release_logs(std::move(options.intervals), longest);
  options.expected_working =
      std::min<std::size_t>(static_cast<std::size_t>(s.qmgr_message_active_limit), std::size_t{1} << 20U);
  auto log = queue_log::QueueLog::open(storage, options, c.loop().clock(), ids);
  if (!log) {
    advise(s.queue_log_directory, log.error());
    return fail(std::move(log).error());
  }
  if (const auto in_use = (*log)->restart().report().segment_size; in_use != options.segment_size) {
    log::warning(
        "queue_log_segment_size is {}, but this queue was made with {} and keeps it; the setting "
        "counts for a new queue",
        options.segment_size, in_use);
  }
  return std::move(*log);
}

Result<service::Hooks> start(service::Context& c) {
  const config::Settings& s = c.settings();
  const auto& words = c.arguments().rest;
  const bool orders_only = std::ranges::find(words, kOrdersOnly) != words.end();
  auto program_options = options_of(c);
  PEN_TRY_ASSIGN(program_options.maildrop_keeper, prepared().keeper);
  program_options.guests = std::min(qmgr::Guests::kAll, connection_bound() / 8);
  if (orders_only) {
    program_options.orders_only = true;
    program_options.manager.active_messages = 0;
  } else {
    PEN_TRY(add_delivery_options(c, program_options));
  }
  // Everything lives until the process ends: nothing depends on a destructor.
  PEN_TRY_ASSIGN(queue_log::Storage* const storage, open_storage(c));
  PEN_TRY_ASSIGN(auto log, open_log(c, *storage));
  auto spool = spool::Spool::open(s.spool_directory);
  if (!spool) {
    advise(s.spool_directory, spool.error());
    return fail(std::move(spool).error());
  }
  const WallTime now = c.loop().clock().wall_now();
  PEN_TRY_ASSIGN(auto destinations, orders_only ? destdb::DestDb::over(std::make_shared<NoDestinations>(), now)
                                                : destdb::DestDb::open(s.data_directory + "/destdb", now));
  if (!destinations->warning().empty()) log::warning("{}", destinations->warning());
  if (!orders_only) note_layouts(s.queue_log_directory, program_options);
  auto* program = new qmgr::Program(c.loop(), std::move(program_options), *storage, *log.release(), spool->release(),
                                    *destinations.release());
  program->start();
  if (orders_only) {
    for (Fd& tool : c.take_listeners())
      c.loop().spawn("tool", program->serve(async::Stream(c.loop(), std::move(tool))));
  }
  c.serve([program](async::Listener::Accepted a) { return program->serve(std::move(a.stream)); }, connection_bound());
  service::Hooks hooks;
  hooks.drain = [program] { return program->drain(); };
  hooks.status = [program] {
    std::vector<std::string> lines;
    for (const auto& l : program->status()) lines.push_back(l.name + " " + l.value);
    return lines;
  };
  return hooks;
}

/// qmgr --check-queue DIR, asked by a master before an upgrade: does this version read the queue? DIR: of main.cf.
int check_queue(const std::string& directory) {
  const auto config = config::load(config::config_directory(directory));
  if (!config) {
    std::printf("%s\n", config.error().message().c_str());
    return EX_CONFIG;
  }
  auto read = queue_log::check_versions(config->settings().queue_log_directory);
  if (read) read = qmgr::check_layouts(config->settings().queue_log_directory);
  if (!read) std::printf("%s\n", read.error().message().c_str());
  return read ? EX_OK : EX_DATAERR;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc == 3 && std::string_view(argv[1]) == "--check-queue") return check_queue(argv[2]);
  return pen::service::run(argc, argv,
                           {.name = "qmgr",
                            .summary = "queue manager: queue, routing, scheduling",
                            .look = look,
                            .with_privileges = prepare},
                           start);
}
