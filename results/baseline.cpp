#include "results/baseline.hpp"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <map>
#include <numeric>
#include <optional>
#include <set>

#include "harness/failure.hpp"
#include "harness/files.hpp"
#include "harness/text.hpp"
#include "results/statistics.hpp"

namespace misfire {
namespace {

[[noreturn]] void refuse(const Json& at, const std::string& what) { throw Error(ErrorCode::invalid_input, at.where() + what); }

void check_keys(const Json& object, std::string_view what, const std::vector<std::string_view>& allowed) {
  for (const auto& [key, value] : object.as_object())
    if (std::find(allowed.begin(), allowed.end(), key) == allowed.end())
      refuse(value, "unknown key in " + std::string(what) + ": '" + key + "'" + did_you_mean(key, allowed));
}

Unit unit_named(const Json& value) {
  constexpr Unit all[] = {Unit::none,
                          Unit::text,
                          Unit::count,
                          Unit::bytes,
                          Unit::seconds,
                          Unit::fraction,
                          Unit::ratio,
                          Unit::bytes_per_second,
                          Unit::images_per_second};
  for (Unit unit : all)
    if (unit_name(unit) == value.as_string()) return unit;
  refuse(value, "unknown unit '" + value.as_string() + "'");
}

/// Days since 1970 and seconds of the day. @throws Error for anything but "YYYY-MM-DDThh:mm:ssZ"
std::pair<int, int> moment(const std::string& text, const std::string& where) {
  int year = 0, month = 0, day = 0, hour = 0, minute = 0, second = 0, used = 0;
  const int fields = std::sscanf(text.c_str(), "%4d-%2d-%2dT%2d:%2d:%2dZ%n", &year, &month, &day, &hour, &minute, &second, &used);
  const std::chrono::year_month_day date{std::chrono::year(year), std::chrono::month(static_cast<unsigned>(month)),
                                         std::chrono::day(static_cast<unsigned>(day))};
  if (fields != 6 || used != 20 || text.size() != 20 || !date.ok() || hour > 23 || minute > 59 || second > 60)
    throw Error(ErrorCode::invalid_input, where + "'" + text + "' is not a time as in 2026-05-04T12:30:00Z");
  return {static_cast<int>(std::chrono::sys_days(date).time_since_epoch().count()), hour * 3600 + minute * 60 + second};
}

BaselineSession read_session(const Json& json, const std::map<std::string, Unit>& units) {
  check_keys(json, "a session", {"started", "version", "commit", "environment", "launches"});
  BaselineSession session;
  session.started = json.at("started").as_string();
  moment(session.started, json.at("started").where());
  session.version = json.at("version").as_string();
  session.commit = json.at("commit").as_string();
  session.environment = json.at("environment");
  session.environment.as_object();
  for (const Json& item : json.at("launches").as_array()) {
    check_keys(item, "a launch", {"case", "seed", "metrics", "missing"});
    BaselineLaunch launch;
    launch.case_name = item.at("case").as_string();
    launch.seed = item.at("seed").as_uint();
    for (const auto& [name, value] : item.at("metrics").as_object()) {
      const auto unit = units.find(name);
      if (unit == units.end()) refuse(value, "the metric '" + name + "' has no unit in 'units'");
      launch.metrics.push_back({name, unit->second, value.as_double()});
    }
    if (const Json* missing = item.find("missing"))
      for (const auto& [name, why] : missing->as_object()) launch.missing.emplace_back(name, why.as_string());
    session.launches.push_back(std::move(launch));
  }
  return session;
}

// Sign that makes "worse" positive; nothing for what has no better or worse.
std::optional<double> worse_sign(Unit unit) {
  switch (unit) {
    case Unit::images_per_second:
    case Unit::bytes_per_second:
      return -1;
    case Unit::seconds:
      return 1;
    default:
      return std::nullopt;
  }
}

struct Figures {
  std::vector<std::vector<double>> sessions;  // logarithms, by session
  std::vector<double> now;
  Unit unit = Unit::none;
  std::string trouble;  // why it cannot be compared
};

// The figures of one metric of one case, on both sides.
Figures collect(const std::vector<const BaselineSession*>& before, const BaselineSession& now, const std::string& case_name,
                const std::string& metric) {
  Figures figures;
  const auto add = [&](const BaselineLaunch& launch, std::vector<double>& values, const std::string& side) {
    if (launch.case_name != case_name) return;
    const auto found =
        std::find_if(launch.metrics.begin(), launch.metrics.end(), [&](const Metric& entry) { return entry.name == metric; });
    if (found == launch.metrics.end()) {
      std::string why = "the launch has no " + metric;
      for (const auto& [name, reason] : launch.missing)
        if (name == metric) why += " (" + reason + ")";
      figures.trouble = side + ": " + why;
    } else if (!(found->number() > 0) || !std::isfinite(found->number())) {
      figures.trouble =
          side + ": " + metric + " is " + value_text(found->number(), found->unit) + "; ratios need a positive number";
    } else {
      figures.unit = found->unit;
      values.push_back(std::log(found->number()));
    }
  };
  for (const BaselineSession* session : before) {
    std::vector<double> values;
    for (const BaselineLaunch& launch : session->launches) add(launch, values, "baseline of " + session->started);
    if (!values.empty()) figures.sessions.push_back(std::move(values));
  }
  for (const BaselineLaunch& launch : now.launches) add(launch, figures.now, "now");
  if (figures.trouble.empty() && figures.now.empty()) figures.trouble = "now: no launch of this case";
  if (figures.trouble.empty() && figures.sessions.empty()) figures.trouble = "the baseline has no launch of this case";
  if (figures.trouble.empty() && !worse_sign(figures.unit))
    figures.trouble = metric + " has no better or worse: its unit is " + std::string(unit_name(figures.unit));
  return figures;
}

double mean(const std::vector<double>& values) {
  return std::accumulate(values.begin(), values.end(), 0.0) / static_cast<double>(values.size());
}

double squares_about(const std::vector<double>& values, double centre) {
  return std::accumulate(values.begin(), values.end(), 0.0,
                         [&](double sum, double value) { return sum + (value - centre) * (value - centre); });
}

double median_of_logs(const std::vector<std::vector<double>>& sessions) {
  std::vector<double> all;
  for (const auto& values : sessions) all.insert(all.end(), values.begin(), values.end());
  return std::exp(median(all));
}

std::string percent(double share) {
  char buffer[32];
  std::snprintf(buffer, sizeof buffer, "%+.1f%%", share * 100);
  return buffer;
}

// Worse by how much, with the error of predicting a session from the others.
struct Prediction {
  double effect = 0, error = 0, degrees = 0;
};

Prediction predict(const Figures& figures, BaselineRow& row) {
  const double sign = *worse_sign(figures.unit);
  std::vector<double> means;
  double within = 0, launches = 0, reciprocal = 0;
  for (const auto& values : figures.sessions) {
    means.push_back(mean(values));
    within += squares_about(values, means.back());
    launches += static_cast<double>(values.size());
    reciprocal += 1 / static_cast<double>(values.size());
  }
  const auto s = static_cast<double>(means.size());
  const double per_session = s / reciprocal;  // harmonic mean of launches
  const double run = launches > s ? within / (launches - s) : 0;
  const double between = squares_about(means, mean(means)) / (s - 1);
  const double session = std::max(0.0, between - run / per_session);
  row.launch_sd = std::sqrt(run);
  row.session_sd = std::sqrt(session);
  const auto fresh = static_cast<double>(figures.now.size());
  Prediction prediction;
  prediction.effect = sign * (mean(figures.now) - mean(means));
  prediction.error = std::sqrt(session * (1 + 1 / s) + run * (1 / fresh + 1 / (s * per_session)));
  prediction.degrees = s - 1;
  return prediction;
}

}  // namespace

std::string_view comparison_name(Comparison comparison) noexcept {
  switch (comparison) {
    case Comparison::pass:
      return "pass";
    case Comparison::regression:
      return "regression";
    case Comparison::inconclusive:
      return "inconclusive";
    case Comparison::invalid:
      return "invalid";
  }
  return "invalid";
}

Exit exit_for(Comparison comparison) noexcept {
  switch (comparison) {
    case Comparison::pass:
      return Exit::success;
    case Comparison::regression:
      return Exit::failure;
    case Comparison::inconclusive:
      return Exit::inconclusive;
    case Comparison::invalid:
      return Exit::invalid;
  }
  return Exit::invalid;
}

std::string baseline_path(const std::string& directory, const std::string& hardware_class, const std::string& scenario) {
  return directory + "/" + hardware_class + "/" + scenario + ".json";
}

Baseline read_baseline(const std::string& path) {
  const Json json = Json::read_file(path);
  if (!json.is_object()) refuse(json, "expected an object for a baseline, found " + std::string(json.type_name()));
  const std::int64_t version = json.at("schema").as_int();
  if (version != baseline_schema_version)
    refuse(json.at("schema"), "baseline schema " + std::to_string(version) +
                                  (version > baseline_schema_version ? " is newer than" : " is none that") +
                                  " this Misfire reads (" + std::to_string(baseline_schema_version) + ")");
  check_keys(json, "a baseline", {"schema", "hardware_class", "scenario", "units", "sessions"});
  Baseline baseline;
  baseline.hardware_class = json.at("hardware_class").as_string();
  baseline.scenario = json.at("scenario").as_string();
  std::map<std::string, Unit> units;
  for (const auto& [name, unit] : json.at("units").as_object()) units[name] = unit_named(unit);
  for (const Json& item : json.at("sessions").as_array()) {
    BaselineSession session = read_session(item, units);
    if (!baseline.sessions.empty() && session.started <= baseline.sessions.back().started)
      refuse(item, "sessions are sorted by their start, each once");
    baseline.sessions.push_back(std::move(session));
  }
  return baseline;
}

std::string baseline_text(const Baseline& baseline) {
  std::map<std::string, Unit> units;
  for (const BaselineSession& session : baseline.sessions)
    for (const BaselineLaunch& launch : session.launches)
      for (const Metric& metric : launch.metrics) units[metric.name] = metric.unit;
  Json unit_names = Json::object();
  for (const auto& [name, unit] : units) unit_names.set(name, unit_name(unit));
  std::string text = "{\n\"schema\": " + std::to_string(baseline_schema_version) +
                     ",\n\"hardware_class\": " + Json(baseline.hardware_class).dump() +
                     ",\n\"scenario\": " + Json(baseline.scenario).dump() + ",\n\"units\": " + unit_names.dump() +
                     ",\n\"sessions\": [";
  const char* separator = "\n";
  for (const BaselineSession& session : baseline.sessions) {
    text += separator;
    text += "{\"started\": " + Json(session.started).dump() + ", \"version\": " + Json(session.version).dump() +
            ", \"commit\": " + Json(session.commit).dump() +
            ",\n \"environment\": " + (session.environment.is_null() ? "{}" : session.environment.dump()) + ",\n \"launches\": [";
    const char* comma = "\n  ";
    for (const BaselineLaunch& launch : session.launches) {
      Json metrics = Json::object(), missing = Json::object();
      for (const Metric& metric : launch.metrics)
        if (!metric.is_text()) metrics.set(metric.name, metric.number());
      for (const auto& [name, why] : launch.missing) missing.set(name, why);
      Json line = Json::object({{"case", launch.case_name}, {"seed", launch.seed}, {"metrics", metrics}});
      if (!missing.as_object().empty()) line.set("missing", missing);
      text += comma + line.dump();
      comma = ",\n  ";
    }
    text += "]}";
    separator = ",\n";
  }
  return text + "\n]\n}\n";
}

void write_baseline(const std::string& path, const Baseline& baseline) {
  const auto slash = path.rfind('/');
  if (slash != std::string::npos && slash > 0) make_directories(path.substr(0, slash));
  write_file_atomically(path, baseline_text(baseline));
}

void add_session(Baseline& baseline, const std::string& hardware_class, const std::string& scenario, BaselineSession session) {
  moment(session.started, "a session's start: ");
  if (baseline.sessions.empty() && baseline.hardware_class.empty()) {
    baseline.hardware_class = hardware_class;
    baseline.scenario = scenario;
  }
  if (baseline.hardware_class != hardware_class)
    throw Error(ErrorCode::invalid_input, "this machine is of the class '" + hardware_class + "', the baseline of '" +
                                              baseline.hardware_class + "': record into a file of its own");
  if (baseline.scenario != scenario)
    throw Error(ErrorCode::invalid_input, "the baseline is of the scenario '" + baseline.scenario + "', not '" + scenario + "'");
  const auto place = std::lower_bound(baseline.sessions.begin(), baseline.sessions.end(), session,
                                      [](const BaselineSession& a, const BaselineSession& b) { return a.started < b.started; });
  if (place != baseline.sessions.end() && place->started == session.started) {
    *place = std::move(session);
  } else {
    baseline.sessions.insert(place, std::move(session));
  }
}

BaselineReport compare_with_baseline(const Baseline& baseline, const std::string& hardware_class, const BaselineSession& now,
                                     const BaselinePolicy& policy) {
  BaselineReport report;
  const auto settle = [&](Comparison result, const std::string& reason, const std::string& explanation) {
    report.result = result;
    report.reason = reason;
    report.explanation = explanation;
    return report;
  };
  if (baseline.hardware_class != hardware_class)
    return settle(Comparison::invalid, "wrong_hardware",
                  "this machine is of the class '" + hardware_class + "', the baseline of '" + baseline.hardware_class +
                      "'; record one here: misfire baseline record");
  const int today = moment(now.started, "the new session's start: ").first;
  std::vector<const BaselineSession*> valid;
  std::set<int> days;
  std::set<std::string> cases;
  for (const BaselineSession& session : baseline.sessions) {
    const int day = moment(session.started, "the baseline's session: ").first;
    if (today - day > policy.expires_days || session.started >= now.started) continue;
    valid.push_back(&session);
    days.insert(day);
    for (const BaselineLaunch& launch : session.launches) cases.insert(launch.case_name);
  }
  if (valid.empty())
    return settle(Comparison::invalid, "no_baseline",
                  "no session of the baseline is from the " + std::to_string(policy.expires_days) +
                      " days before; record one: misfire baseline record");
  for (const BaselineLaunch& launch : now.launches) cases.insert(launch.case_name);
  const bool intervals =
      valid.size() >= static_cast<std::size_t>(policy.sessions) && days.size() >= static_cast<std::size_t>(policy.days);

  std::vector<double> chances;  // of that much or more, were the true change the tolerated one; by row
  for (const std::string& case_name : cases)
    for (const std::string& metric : policy.metrics) {
      BaselineRow& row = report.rows.emplace_back();
      chances.push_back(1);
      row.case_name = case_name;
      row.metric = metric;
      row.mode = intervals ? "interval" : "floor";
      const Figures figures = collect(valid, now, case_name, metric);
      row.sessions = figures.sessions.size();
      row.launches = figures.now.size();
      row.unit = figures.unit;
      if (!figures.trouble.empty()) {
        row.explanation = figures.trouble;
        continue;
      }
      row.before = median_of_logs(figures.sessions);
      row.now = std::exp(median(figures.now));
      const double sign = *worse_sign(figures.unit);
      row.worse = std::expm1(sign * std::log(row.now / row.before));
      if (!intervals) {
        const double share = sign > 0 ? row.worse : 1 - row.now / row.before;
        row.result = share > policy.floor ? Comparison::regression : Comparison::inconclusive;
        row.explanation = row.result == Comparison::regression
                              ? "worse than the coarse floor of " + percent(policy.floor)
                              : "within the coarse floor of " + percent(policy.floor) + "; intervals need " +
                                    std::to_string(policy.sessions) + " sessions over " + std::to_string(policy.days) +
                                    " days, there are " + std::to_string(valid.size()) + " over " + std::to_string(days.size());
        continue;
      }
      if (figures.sessions.size() < static_cast<std::size_t>(policy.sessions)) {
        row.result = Comparison::inconclusive;
        row.explanation = "only " + std::to_string(figures.sessions.size()) + " sessions have this case";
        continue;
      }
      const Prediction prediction = predict(figures, row);
      const double reach = student_t_quantile(1 - policy.alpha, prediction.degrees) * prediction.error;
      row.worse = std::expm1(prediction.effect);
      row.low = std::expm1(prediction.effect - reach);
      row.high = std::expm1(prediction.effect + reach);
      row.detectable = std::expm1(std::log1p(policy.tolerated) + (student_t_quantile(1 - policy.alpha, prediction.degrees) +
                                                                  student_t_quantile(policy.power, prediction.degrees)) *
                                                                     prediction.error);
      const double beyond = prediction.effect - std::log1p(policy.tolerated);
      chances.back() = prediction.error > 0 ? 1 - student_t_below(beyond / prediction.error, prediction.degrees)
                       : beyond > 0         ? 0
                                            : 1;
      const std::string range =
          percent(row.worse) + " for the worse (from " + percent(row.low) + " to " + percent(row.high) + ")";
      row.result = Comparison::inconclusive;
      if (row.detectable > policy.must_catch) {
        row.explanation = range + "; not gateable here: the smallest change caught would be " + percent(row.detectable);
      } else if (row.high < policy.must_catch) {
        row.result = Comparison::pass;
        row.explanation = range + ", below " + percent(policy.must_catch);
      } else {
        row.explanation = range + ": neither below " + percent(policy.must_catch) + " nor above " + percent(policy.tolerated);
      }
    }

  // Holm: the smallest chance against alpha over all, the next against alpha over the rest, until one fails.
  std::vector<std::size_t> order(chances.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) { return chances[a] < chances[b]; });
  for (std::size_t k = 0;
       intervals && k < order.size() && chances[order[k]] <= policy.alpha / static_cast<double>(order.size() - k); ++k) {
    BaselineRow& row = report.rows[order[k]];
    row.result = Comparison::regression;
    row.explanation =
        percent(row.worse) + " for the worse (at least " + percent(row.low) + "), tolerated is " + percent(policy.tolerated);
  }

  const auto worst = [&](Comparison kind) {
    return std::find_if(report.rows.begin(), report.rows.end(), [&](const BaselineRow& row) { return row.result == kind; });
  };
  const auto said = [&](std::vector<BaselineRow>::const_iterator row) {
    return row->case_name + ", " + row->metric + ": " + row->explanation;
  };
  if (report.rows.empty()) return settle(Comparison::invalid, "data_missing", "neither side has a launch");
  if (const auto row = worst(Comparison::invalid); row != report.rows.end())
    return settle(Comparison::invalid, "data_missing", said(row));
  if (const auto row = worst(Comparison::regression); row != report.rows.end())
    return settle(Comparison::regression, "worse_than_baseline", said(row));
  if (const auto row = worst(Comparison::inconclusive); row != report.rows.end())
    return settle(Comparison::inconclusive, intervals ? "undecided" : "coarse_floors_only", said(row));
  return settle(Comparison::pass, "within_baseline", "no figure is worse by " + percent(policy.must_catch) + " or more");
}

Json BaselineReport::to_json() const {
  Json json = Json::object({{"result", comparison_name(result)}, {"reason", reason}, {"explanation", explanation}});
  Json list = Json::array();
  for (const BaselineRow& row : rows)
    list.push_back(Json::object({{"case", row.case_name},
                                 {"metric", row.metric},
                                 {"unit", unit_name(row.unit)},
                                 {"result", comparison_name(row.result)},
                                 {"mode", row.mode},
                                 {"before", row.before},
                                 {"now", row.now},
                                 {"worse", row.worse},
                                 {"low", row.low},
                                 {"high", row.high},
                                 {"detectable", row.detectable},
                                 {"session_sd", row.session_sd},
                                 {"launch_sd", row.launch_sd},
                                 {"sessions", row.sessions},
                                 {"launches", row.launches},
                                 {"explanation", row.explanation}}));
  json.set("rows", list);
  return json;
}

std::string baseline_report_text(const BaselineReport& report) {
  std::string text;
  for (const BaselineRow& row : report.rows) {
    char line[256];
    std::snprintf(line, sizeof line, "%-20s %-18s %12s %12s  %-12s ", row.case_name.c_str(), row.metric.c_str(),
                  format_quantity(row.before, row.unit).c_str(), format_quantity(row.now, row.unit).c_str(),
                  std::string(comparison_name(row.result)).c_str());
    text += line + row.explanation + "\n";
  }
  return text + std::string(comparison_name(report.result)) + " (" + report.reason + "): " + report.explanation + "\n";
}

}  // namespace misfire
