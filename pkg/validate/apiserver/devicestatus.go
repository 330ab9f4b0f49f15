package apiserver

import (
	"strings"

	resourceapi "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	metav1validation "k8s.io/apimachinery/pkg/apis/meta/v1/validation"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/dra-steward/dra-steward/pkg/validate/internal/form"
	"github.com/dra-steward/dra-steward/pkg/validate/internal/walk"
)

// deviceStatusRules are the rules for what drivers report about allocated devices.
var deviceStatusRules = Table[statusWrite]{
	{
		ID: "device-status-device",
		Doc: `The status of a device names it by driver, pool, device and shareID, and each device has one.

The names have the form that allocations use.`,
		Upstream: "the same, since 1.32; 1.34 reports a repeated device at deviceID",
		Source:   "KEP-4817, AllocatedDeviceStatus, +listMapKey",
		Check:    deviceStatusDevice,
	},
	{
		ID: "device-status-allocated",
		Doc: `A device with a status is allocated to the claim.

The API server removes the status of a device with its allocation.`,
		Upstream: "the same, since 1.32",
		Source:   "KEP-4817, validateDeviceStatus",
		Check:    deviceStatusAllocated,
	},
	{
		ID: "device-status-conditions",
		Doc: `The status of a device has at most 8 conditions, each complete and of its own type.

A condition has type, status, reason and lastTransitionTime.`,
		Upstream: "the same, since 1.32; until 1.36 with other words for what is missing",
		Source:   "KEP-4817, AllocatedDeviceStatusMaxConditions, ValidateConditions",
		Check:    deviceStatusConditions,
	},
	{
		ID: "device-status-data",
		Doc: `The data in the status of a device is a JSON object of at most 10240 bytes.

The driver defines the content.`,
		Upstream: "the same, since 1.32",
		Source:   "KEP-4817, AllocatedDeviceStatusDataMaxLength",
		Check:    deviceStatusData,
	},
	{
		ID: "device-status-network",
		Doc: `Network data have at most 16 addresses in CIDR form, each once, and names of bounded length.

The interface name has at most 256 bytes, the hardware address 128.`,
		Upstream: "the same, since 1.32",
		Source:   "KEP-4817, NetworkDeviceData",
		Check:    deviceStatusNetwork,
	},
}

var deviceStatusPath = statusPath.Child("devices")

func deviceStatusDevice(w statusWrite, c Pass) (errs field.ErrorList) {
	seen := map[allocatedDevice]bool{}
	for i := range w.Devices {
		at, d := deviceStatusPath.Index(i), &w.Devices[i]
		errs = append(errs, form.Driver(at.Child("driver"), d.Driver, c.server)...)
		errs = append(errs, form.Pool(at.Child("pool"), d.Pool)...)
		errs = append(errs, form.AllOf(at.Child("device"), d.Device, validation.IsDNS1123Label(d.Device))...)
		if d.ShareID != nil {
			errs = append(errs, shareID(at.Child("shareID"), *d.ShareID)...)
		}
		id := statusDevice(d)
		if seen[id] {
			errs = append(errs, field.Duplicate(duplicate(at, "deviceID", c), strings.Join([]string{id.driver, id.pool, id.device}, "/")))
		}
		seen[id] = true
	}
	return errs
}

func deviceStatusAllocated(w statusWrite, _ Pass) (errs field.ErrorList) {
	devices := allocated(w.Allocation)
	for i := range w.Devices {
		if id := statusDevice(&w.Devices[i]); !devices[id] {
			errs = append(errs, field.Invalid(deviceStatusPath.Index(i), strings.Join([]string{id.driver, id.pool, id.device}, "/"),
				"is not allocated to the claim"))
		}
	}
	return errs
}

func deviceStatusConditions(w statusWrite, c Pass) (errs field.ErrorList) {
	for i := range w.Devices {
		at, list := deviceStatusPath.Index(i).Child("conditions"), w.Devices[i].Conditions
		errs = append(errs, form.AtMost(at, len(list), resourceapi.AllocatedDeviceStatusMaxConditions)...)
		errs = append(errs, conditions(at, list, c)...)
	}
	return errs
}

// conditions reports what is wrong with the conditions of a status.
func conditions(at *field.Path, list []metav1.Condition, c Pass) field.ErrorList {
	errs := metav1validation.ValidateConditions(list, at)
	if c.Profile.Since(37) {
		return errs
	}
	for _, err := range errs {
		switch {
		case err.Type == field.ErrorTypeDuplicate:
			err.Field += ".type"
		case err.Type == field.ErrorTypeRequired && strings.HasSuffix(err.Field, ".type"):
			err.Type = field.ErrorTypeInvalid
		case err.Type == field.ErrorTypeRequired && strings.HasSuffix(err.Field, ".status"):
			err.Type = field.ErrorTypeNotSupported
		}
	}
	return errs
}

func deviceStatusData(w statusWrite, c Pass) (errs field.ErrorList) {
	for i := range w.Devices {
		if data := w.Devices[i].Data; data != nil && len(data.Raw) > 0 {
			errs = append(errs, jsonObject(deviceStatusPath.Index(i).Child("data"), *data, resourceapi.AllocatedDeviceStatusDataMaxLength, c)...)
		}
	}
	return errs
}

func deviceStatusNetwork(w statusWrite, c Pass) (errs field.ErrorList) {
	for i := range w.Devices {
		network, at := w.Devices[i].NetworkData, deviceStatusPath.Index(i).Child("networkData")
		if network == nil {
			continue
		}
		errs = append(errs, form.TooLong(at.Child("interfaceName"), len(network.InterfaceName), resourceapi.NetworkDeviceDataInterfaceNameMaxLength)...)
		errs = append(errs, form.TooLong(at.Child("hardwareAddress"), len(network.HardwareAddress), resourceapi.NetworkDeviceDataHardwareAddressMaxLength)...)
		ips := at.Child("ips")
		errs = append(errs, form.AtMost(ips, len(network.IPs), resourceapi.NetworkDeviceDataMaxIPs)...)
		seen := map[string]bool{}
		for i, ip := range walk.Checked(network.IPs, resourceapi.NetworkDeviceDataMaxIPs, c.server) {
			errs = append(errs, validation.IsValidInterfaceAddress(ips.Index(i), ip)...)
			if seen[ip] {
				errs = append(errs, field.Duplicate(ips.Index(i), ip))
			}
			seen[ip] = true
		}
	}
	return errs
}
