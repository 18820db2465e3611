#include "cyrus/library.h"

#include <fmt/format.h>
#include <sasl/sasl.h>
#include <sasl/saslplug.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <bit>
#include <iterator>
#include <mutex>

#include "lib/base/text.h"

namespace pen::cyrus {
namespace {

thread_local const Application* working_for = nullptr;
thread_local std::vector<Note>* notes = nullptr;
const std::vector<Application>* all = nullptr;  // while plugins are loaded

// Where the options of an application would be, if the library looked for them itself.
constexpr const char* kNowhere = "/dev/null";
constexpr std::size_t kMostOfNote = 500;

void* new_mutex() { return new std::mutex; }
int lock_mutex(void* mutex) {
  static_cast<std::mutex*>(mutex)->lock();
  return SASL_OK;
}
int unlock_mutex(void* mutex) {
  static_cast<std::mutex*>(mutex)->unlock();
  return SASL_OK;
}
void free_mutex(void* mutex) { delete static_cast<std::mutex*>(mutex); }

const char* option_of(std::string_view name) {
  if (working_for != nullptr) {
    if (const char* place = place_of(name, *working_for)) return place;
    const std::string* value = working_for->options.value(name);
    return value == nullptr ? nullptr : value->c_str();
  }
  if (all == nullptr) return nullptr;
  for (const Application& application : *all)
    if (const std::string* value = application.options.value(name)) return value->c_str();
  return nullptr;
}

int on_option(void*, const char* plugin, const char* option, const char** result, unsigned* length) {
  // As the library does with its own file: the plugin's name and the option, then the option alone.
  const char* value = nullptr;
  if (plugin != nullptr) value = option_of(std::string(plugin) + "_" + option);
  if (value == nullptr) value = option_of(option);
  if (value == nullptr) return SASL_FAIL;
  *result = value;
  if (length != nullptr) *length = static_cast<unsigned>(std::string_view(value).size());
  return SASL_OK;
}

int on_log(void*, int level, const char* text) {
  const bool warning = level == SASL_LOG_ERR || level == SASL_LOG_WARN;
  if (text == nullptr || notes == nullptr || (!warning && level != SASL_LOG_FAIL)) return SASL_OK;
  if (notes->size() < Working::kMostNotes) notes->push_back({warning, std::string(text).substr(0, kMostOfNote)});
  return SASL_OK;
}

using AnyCallback = int (*)();
const sasl_callback_t kCallbacks[] = {{SASL_CB_GETOPT, std::bit_cast<AnyCallback>(&on_option), nullptr},
                                      {SASL_CB_LOG, std::bit_cast<AnyCallback>(&on_log), nullptr},
                                      {SASL_CB_LIST_END, nullptr, nullptr}};

/// The library names what a mechanism protects from; smtpd learns what it is open to.
unsigned properties_of(unsigned flags) {
  using namespace sasl::property;
  unsigned out = 0;
  if ((flags & SASL_SEC_NOPLAINTEXT) == 0) out |= kPlaintext;
  if ((flags & SASL_SEC_NOACTIVE) == 0) out |= kActive;
  if ((flags & SASL_SEC_NODICTIONARY) == 0) out |= kDictionary;
  if ((flags & SASL_SEC_NOANONYMOUS) == 0) out |= kAnonymous;
  if ((flags & SASL_SEC_FORWARD_SECRECY) != 0) out |= kForwardSecrecy;
  if ((flags & SASL_SEC_MUTUAL_AUTH) != 0) out |= kMutualAuth;
  return out;
}

void take_plugin(server_sasl_mechanism_t* mechanism, sasl_info_callback_stage_t stage, void* into) {
  if (stage != SASL_INFO_LIST_MECH || mechanism == nullptr || mechanism->plug == nullptr) return;
  static_cast<std::vector<sasl::Mechanism>*>(into)->push_back(
      {mechanism->plug->mech_name, properties_of(mechanism->plug->security_flags)});
}

/// What plugins read when they are loaded, and not again.
bool read_at_load(std::string_view option) { return option.starts_with("sql_") || option.starts_with("ldapdb_"); }

}  // namespace

Working::Working(const Application& application, std::vector<Note>& into) {
  working_for = &application;
  notes = &into;
}
Working::~Working() {
  working_for = nullptr;
  notes = nullptr;
}

const char* place_of(std::string_view option, const Application& application) {
  struct Place {
    std::string_view option;
    std::string usual;
  };
  static const Place kPlaces[] = {{"saslauthd_path", config::kSaslauthdSocket}, {"sasldb_path", config::kSasldbFile}};
  const auto place = std::ranges::find(kPlaces, option, &Place::option);
  if (place == std::end(kPlaces)) return nullptr;
  const std::string* set = application.options.value(option);
  const std::string& path = set == nullptr ? place->usual : *set;
  const auto gone = [](const std::string& file) {
    return ::access(file.c_str(), F_OK) != 0 && (errno == ENOENT || errno == ENOTDIR);
  };
  if (!gone(path)) return nullptr;
  // One for each option: what is given out must stay.
  thread_local std::array<std::string, std::size(kPlaces)> all_below;
  std::string& below = all_below[static_cast<std::size_t>(place - std::begin(kPlaces))];
  below = config::below_postfix(path);
  return gone(below) ? nullptr : below.c_str();
}

std::unique_ptr<Library> Library::open(std::vector<Application> applications) {
  auto library = std::make_unique<Library>();
  library->applications_ = std::move(applications);
  sasl_set_mutex(new_mutex, lock_mutex, unlock_mutex, free_mutex);
  std::string path = kNowhere;
  (void)sasl_set_path(SASL_PATH_TYPE_CONFIG, path.data());
  std::vector<Note> said;
  all = &library->applications_;
  notes = &said;
  const int result = sasl_server_init(
      kCallbacks, library->applications_.empty() ? "smtpd" : library->applications_.front().name.c_str());
  all = nullptr;
  notes = nullptr;
  for (const Note& note : said) library->news_.push_back("SASL authentication problem: " + note.text);
  for (Application& application : library->applications_) {
    if (!application.fault.empty()) continue;
    if (result != SASL_OK)
      application.fault = sasl_errstring(result, nullptr, nullptr);
    else
      library->list_mechanisms(application);
  }
  library->tell_shared_options();
  return library;
}

void Library::list_mechanisms(Application& application) {
  std::vector<Note> said;
  const Working working(application, said);
  sasl_conn_t* connection = nullptr;
  int result = sasl_server_new("smtp", "localhost", nullptr, nullptr, nullptr, nullptr, 0, &connection);
  sasl_security_properties_t none{};  // what is offered without layers of SASL's own
  if (result == SASL_OK) result = sasl_setprop(connection, SASL_SEC_PROPS, &none);
  const char* names = nullptr;
  if (result == SASL_OK) result = sasl_listmech(connection, nullptr, "", " ", "", &names, nullptr, nullptr);
  std::vector<sasl::Mechanism> plugins;
  (void)sasl_server_plugin_info(nullptr, take_plugin, &plugins);
  for (const std::string_view name : split(names == nullptr ? "" : names, " ")) {
    const auto plugin = std::ranges::find_if(plugins, [&](const auto& p) { return iequals(p.name, name); });
    if (plugin == plugins.end()) continue;
    application.mechanisms.push_back(*plugin);
    for (char& c : application.mechanisms.back().name)
      if (c >= 'a' && c <= 'z') c = static_cast<char>(c - 32);
  }
  if (application.mechanisms.empty())
    application.fault = result == SASL_OK || result == SASL_NOMECH
                            ? "no plugin for a mechanism of mech_list is installed"
                            : sasl_errstring(result, nullptr, nullptr);
  if (connection != nullptr) sasl_dispose(&connection);
  for (const Note& note : said) news_.push_back("SASL authentication problem: " + note.text);
}

void Library::tell_shared_options() {
  for (std::size_t i = 1; i < applications_.size(); ++i) {
    for (const auto& [name, value] : applications_[i].options.all()) {
      if (!read_at_load(name)) continue;
      for (std::size_t before = 0; before < i; ++before) {
        const std::string* first = applications_[before].options.value(name);
        if (first == nullptr) continue;
        if (*first != value)
          news_.push_back(fmt::format("{}.conf: {} is taken from {}.conf, because one process can have it once",
                                      applications_[i].name, name, applications_[before].name));
        break;
      }
    }
  }
}

const Application* Library::find(std::string_view name) const {
  const auto found = std::ranges::find(applications_, name, &Application::name);
  return found == applications_.end() ? nullptr : &*found;
}

}  // namespace pen::cyrus
